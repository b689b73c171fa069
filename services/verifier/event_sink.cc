#include "services/verifier/generation_calls.h"

#include <utility>

#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "services/verifier/generation_service_messages.h"

namespace tandem {

StreamSink::StreamSink(std::shared_ptr<Writer> writer, std::string request_id, std::string model,
                       MetricsPage* metrics)
    : writer_(std::move(writer)),
      request_id_(std::move(request_id)),
      model_(std::move(model)),
      metrics_(metrics) {}

void StreamSink::Started(const ReplyStarted& started) {
  started_ = true;
  v1::GenerateResponse response;
  Fill(started, request_id_, model_, response.mutable_started());
  writer_->Push(std::move(response), 0);
}

void StreamSink::Round(ReplyRound round) {
  v1::GenerateResponse response;
  Fill(round, response.mutable_delta());
  writer_->Push(std::move(response), static_cast<int>(round.tokens.size()));
}

void StreamSink::Finished(const ReplyFinished& finished) {
  CountGeneration(*metrics_, ReasonOf(finished.cause));
  v1::GenerateResponse response;
  Fill(finished, response.mutable_finished());
  writer_->Push(std::move(response), 0);
  writer_->End(absl::OkStatus(), absl::StatusCode::kOk);
}

void StreamSink::Failed(const ReplyFailed& failed) {
  if (!started_) {
    writer_->End(ToStatus(failed), failed.status.code());
    return;
  }
  v1::GenerateResponse response;
  Fill(failed, response.mutable_failed());
  writer_->Push(std::move(response), 0);
  writer_->End(absl::OkStatus(), failed.status.code());
}

std::shared_ptr<OnceCall> OnceCall::Create(grpc::CallbackServerContext* context,
                                           v1::GenerateOnceResponse* response,
                                           MetricsPage* metrics) {
  std::shared_ptr<OnceCall> call(new OnceCall(context, response, metrics));
  call->self_ = call;
  return call;
}

void OnceCall::Begin(const ServingParts& parts, GenerationInput input) {
  request_id_ = input.request_id;
  model_ = parts.model->name;
  link_.Submitted(parts.engine, parts.engine->Submit(std::move(input), self_));
}

void OnceCall::End(const absl::Status& status, absl::StatusCode outcome) {
  AddOutcomeTrailer(*context_, outcome);
  CountOutcome(*metrics_, "GenerateOnce", outcome);
  Finish(ToGrpc(status));
}

void OnceCall::Started(const ReplyStarted& started) {
  Fill(started, request_id_, model_, response_->mutable_started());
}

void OnceCall::Round(ReplyRound round) { Fill(round, response_->mutable_output()); }

void OnceCall::Finished(const ReplyFinished& finished) {
  CountGeneration(*metrics_, ReasonOf(finished.cause));
  Fill(finished, response_->mutable_finished());
  End(absl::OkStatus(), absl::StatusCode::kOk);
}

void OnceCall::Failed(const ReplyFailed& failed) {
  if (!response_->has_started()) {
    End(ToStatus(failed), failed.status.code());
    return;
  }
  Fill(failed, response_->mutable_failed());
  End(absl::OkStatus(), failed.status.code());
}

}  // namespace tandem
