#include "common/rpc/reply_sink.h"

#include "common/rpc/generate_merge.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"

namespace tandem {

std::shared_ptr<OnceWriter> OnceWriter::Create(grpc::CallbackServerContext* context,
                                               v1::GenerateOnceResponse* response,
                                               StreamHooks hooks) {
  std::shared_ptr<OnceWriter> writer(new OnceWriter(context, response, std::move(hooks)));
  writer->self_ = writer;
  return writer;
}

void OnceWriter::Send(v1::GenerateResponse message, int) {
  const absl::MutexLock lock(&mutex_);
  if (ended_) return;
  switch (message.event_case()) {
    case v1::GenerateResponse::kStarted:
      *response_->mutable_started() = std::move(*message.mutable_started());
      return;
    case v1::GenerateResponse::kDelta:
      return AppendDelta(*response_->mutable_output(), *message.mutable_delta());
    case v1::GenerateResponse::kFinished:
      *response_->mutable_finished() = std::move(*message.mutable_finished());
      return;
    case v1::GenerateResponse::kFailed:
      *response_->mutable_failed() = std::move(*message.mutable_failed());
      return;
    case v1::GenerateResponse::EVENT_NOT_SET:
      return;
  }
}

void OnceWriter::End(const absl::Status& status, absl::StatusCode outcome) {
  {
    const absl::MutexLock lock(&mutex_);
    if (ended_) return;
    ended_ = true;
    outcome_ = outcome;
  }
  AddOutcomeTrailer(*context_, outcome);
  Finish(ToGrpc(status));
}

void OnceWriter::OnCancel() {
  const auto self = self_;
  const absl::StatusCode code = CancelledBy(*context_);
  End(absl::Status(code, "the call was cancelled"), code);
  if (hooks_.cancelled) hooks_.cancelled();
}

void OnceWriter::OnDone() {
  const StreamHooks hooks = std::exchange(hooks_, {});
  const auto self = std::exchange(self_, nullptr);
  absl::StatusCode outcome = absl::StatusCode::kOk;
  {
    const absl::MutexLock lock(&mutex_);
    outcome = outcome_;
  }
  if (hooks.done) hooks.done(outcome);
}

}  // namespace tandem
