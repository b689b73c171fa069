#include "services/verifier/event_sink.h"

#include "common/rpc/outcome.h"
#include "services/verifier/generation_service_messages.h"

namespace tandem {

void EventSink::Started(const ReplyStarted& started) {
  started_ = true;
  v1::GenerateResponse response;
  Fill(started, request_id_, model_, response.mutable_started());
  reply_->Send(std::move(response), 0);
}

void EventSink::Round(ReplyRound round) {
  v1::GenerateResponse response;
  Fill(round, response.mutable_delta());
  reply_->Send(std::move(response), static_cast<int>(round.tokens.size()));
}

void EventSink::Finished(const ReplyFinished& finished) {
  CountGeneration(*metrics_, ReasonOf(finished.cause));
  v1::GenerateResponse response;
  Fill(finished, response.mutable_finished());
  reply_->Send(std::move(response), 0);
  reply_->End(absl::OkStatus(), absl::StatusCode::kOk);
}

void EventSink::Failed(const ReplyFailed& failed) {
  if (!started_) return reply_->End(ToStatus(failed), failed.status.code());
  v1::GenerateResponse response;
  Fill(failed, response.mutable_failed());
  reply_->Send(std::move(response), 0);
  reply_->End(absl::OkStatus(), failed.status.code());
}

}  // namespace tandem
