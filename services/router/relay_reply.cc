#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "services/router/call_unary.h"
#include "services/router/relay.h"

namespace tandem {
namespace {

constexpr absl::Duration kCancelTimeout = absl::Seconds(5);
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

v1::GenerateResponse MakeResponse(v1::Delta delta) {
  v1::GenerateResponse response;
  *response.mutable_delta() = std::move(delta);
  return response;
}

}  // namespace

void Relay::OnResponse(v1::GenerateResponse& response) {
  if (stop_index_.has_value()) {
    context_->metrics()->trimmed_tokens.Increment(response.delta().token_ids_size());
    return;
  }
  if (ended_ || !broken_.ok() || abandoned()) return;
  switch (response.event_case()) {
    case v1::GenerateResponse::kStarted:
      return OnStarted(response.started());
    case v1::GenerateResponse::kDelta:
      return OnDelta(response.delta());
    case v1::GenerateResponse::kFinished:
      return OnFinished(response.finished());
    case v1::GenerateResponse::kFailed:
      failed_ = response.failed();
      return;
    case v1::GenerateResponse::EVENT_NOT_SET:
      return;
  }
}

void Relay::OnStarted(const v1::Started& started) {
  attempt_started_ = true;
  if (started_) {
    LOG(INFO) << "request " << request_.plan.request_id << " goes on at token "
              << reply_.ids().size();
    context_->metrics()->resumed_streams.Increment();
    return;
  }
  started_ = true;
  times_.Started(absl::Now());
  const Plan& plan = request_.plan;
  const auto prompt_tokens = static_cast<uint32_t>(plan.input_ids.size());
  const size_t history = request_.session == nullptr ? 0 : request_.session->history().size();
  reply_.usage().SetPrompt(prompt_tokens, started.cached_prompt_tokens());
  context_->metrics()->prompt_tokens.Increment(prompt_tokens);
  v1::GenerateResponse response;
  v1::Started& event = *response.mutable_started();
  event.set_request_id(plan.request_id);
  event.set_model(plan.model->model.name());
  event.set_seed(plan.seed);
  event.set_prompt_tokens(prompt_tokens);
  event.set_cached_prompt_tokens(started.cached_prompt_tokens());
  event.set_position(history + prompt_tokens);
  sink_->Send(std::move(response), 0);
}

void Relay::OnDelta(const v1::Delta& delta) {
  absl::StatusOr<Reply::Output> output = reply_.Add(delta);
  if (!output.ok()) {
    broken_ = output.status();
    attempt()->Cancel();
    return;
  }
  give_up_ = absl::InfiniteFuture();
  SendDelta(std::move(output->delta));
  if (output->stop_index.has_value()) StopAtText(*output->stop_index);
}

void Relay::SendDelta(v1::Delta delta) {
  const int tokens = delta.token_ids_size();
  if (tokens == 0 && delta.text().empty() && delta.reasoning_text().empty()) return;
  times_.Message(absl::Now(), tokens);
  context_->metrics()->generated_tokens.Increment(tokens);
  sink_->Send(MakeResponse(std::move(delta)), tokens);
}

void Relay::OnFinished(const v1::Finished& finished) {
  Reply::Output output = reply_.End();
  SendDelta(std::move(output.delta));
  if (output.stop_index.has_value()) return StopAtText(*output.stop_index);
  CommitSession(&finished);
  v1::Finished result = finished;
  const bool one_verifier = attempts_ == 1;
  *result.mutable_timings() = times_.End(absl::Now(), one_verifier ? &finished.timings() : nullptr);
  Finish(std::move(result));
}

bool Relay::FinishLocally() {
  const Plan& plan = request_.plan;
  if (reply_.ids().empty()) return false;
  const uint32_t last = reply_.ids().back();
  const bool at_stop = plan.base.stopping().include_stop_in_output() && plan.IsStopToken(last);
  if (!at_stop && reply_.ids().size() < plan.max_tokens) return false;
  Reply::Output output = reply_.End();
  SendDelta(std::move(output.delta));
  if (output.stop_index.has_value()) {
    StopAtText(*output.stop_index);
    return true;
  }
  v1::Finished finished;
  finished.set_reason(at_stop ? v1::FINISH_REASON_STOP_TOKEN : v1::FINISH_REASON_MAX_TOKENS);
  if (at_stop) finished.set_stop_token_id(last);
  CommitSession(nullptr);
  *finished.mutable_timings() = times_.End(absl::Now(), nullptr);
  Finish(std::move(finished));
  return true;
}

void Relay::StopAtText(int stop_index) {
  stop_index_ = stop_index;
  context_->metrics()->trimmed_tokens.Increment(reply_.trimmed());
  const std::shared_ptr<Attempt> running = attempt();
  if (running == nullptr) return FinishStop();
  v1::CancelRequest request;
  request.set_request_id(running->request_id());
  request.set_retain_tokens(static_cast<uint32_t>(reply_.ids().size()));
  // Nobody but the session cares where the verifier stands.
  if (request_.session == nullptr) FinishStop();
  CallUnary<v1::GenerationService::Stub::async_interface, v1::CancelRequest, v1::CancelResponse>(
      running->worker()->generation().async(),
      &v1::GenerationService::Stub::async_interface::Cancel, std::move(request), kCancelTimeout,
      [self = shared_from_this(), running](const absl::Status& status, const v1::CancelResponse&) {
        if (!status.ok()) {
          running->Cancel();
          const absl::MutexLock lock(&self->mutex_);
          self->retained_ = false;
        }
        if (self->request_.session != nullptr) self->StopPartDone();
      });
}

void Relay::StopPartDone() {
  {
    const absl::MutexLock lock(&mutex_);
    if (--stop_parts_ > 0) return;
  }
  FinishStop();
}

void Relay::FinishStop() {
  SessionUse* const session = request_.session.get();
  if (session != nullptr) {
    bool in_place = false;
    {
      const absl::MutexLock lock(&mutex_);
      in_place = retained_ && !cancelled_;
    }
    // The verifier may have dropped the reply, or kept too much of it.
    if (!in_place) session->Forget();
    if (cancelled()) return Fail(absl::CancelledError("the request was cancelled"));
  }
  CommitSession(nullptr);
  v1::Finished finished;
  finished.set_reason(v1::FINISH_REASON_STOP_TEXT);
  finished.set_stop_text(request_.plan.reply.stops[*stop_index_]);
  *finished.mutable_timings() = times_.End(absl::Now(), nullptr);
  Finish(std::move(finished));
}

// Adds input and reply to the session. `finished` is the verifier's word, if it had the last one.
void Relay::CommitSession(const v1::Finished* finished) {
  SessionUse* const session = request_.session.get();
  if (session == nullptr) return;
  session->Commit(request_.plan.input_ids);
  session->Commit(reply_.ids());
  if (finished == nullptr) return;
  const uint64_t position = session->history().size();
  if (finished->position() == position) return;
  if (finished->position() == position + 1 && finished->has_stop_token_id()) {
    // The stop token is in the state although it is not in the reply.
    const uint32_t stop = finished->stop_token_id();
    session->Commit(absl::MakeConstSpan(&stop, 1));
    return;
  }
  LOG(ERROR) << "request " << request_.plan.request_id << ": the verifier holds "
             << finished->position() << " tokens, " << position
             << " are right; the session will be recomputed";
  session->Forget();
}

void Relay::Finish(v1::Finished finished) {
  const Plan& plan = request_.plan;
  const uint64_t position = request_.session != nullptr
                                ? request_.session->history().size()
                                : plan.input_ids.size() + reply_.ids().size();
  finished.set_position(position);
  *finished.mutable_usage() = reply_.usage().usage();
  CountGeneration(*context_->page, finished.reason());
  v1::GenerateResponse response;
  *response.mutable_finished() = std::move(finished);
  Conclude();
  sink_->Send(std::move(response), 0);
  sink_->End(absl::OkStatus(), absl::StatusCode::kOk);
}

void Relay::Fail(const absl::Status& cause) {
  absl::Status status = cause;
  if (absl::IsResourceExhausted(status) && !RetryDelay(status).has_value()) {
    SetRetryDelay(status, kRetryDelay);
  }
  if (started_) SendDelta(std::move(reply_.End().delta));
  times_.End(absl::Now(), nullptr);
  const bool from_outside = cancelled() || absl::IsDeadlineExceeded(status);
  const bool as_event = started_ && !from_outside;
  Conclude();
  if (!as_event) return sink_->End(status, status.code());
  v1::GenerateResponse response;
  v1::Failed& failed = *response.mutable_failed();
  failed.set_code(static_cast<int>(status.code()));
  failed.set_reason(ErrorReason(status));
  failed.set_message(std::string(status.message()));
  failed.set_retryable(IsRetryable(status.code()));
  *failed.mutable_usage() = reply_.usage().usage();
  sink_->Send(std::move(response), 0);
  sink_->End(absl::OkStatus(), status.code());
}

void Relay::Conclude() {
  ended_ = true;
  context_->metrics()->retained_tokens.Increment(reply_.usage().usage().retained_tokens());
  request_.session.reset();
  context_->finished(request_.plan.request_id);
}

}  // namespace tandem
