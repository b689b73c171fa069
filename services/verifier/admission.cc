#include "services/verifier/admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tandem {
namespace {

ReplyFailed Failure(absl::Status status, const std::string& reason) {
  return {.status = std::move(status), .reason = reason};
}

}  // namespace

Admission::Admission(const EngineOptions* options, const RecurrentState* state,
                     const SessionTable* sessions, const Scheduler* scheduler, const StepCost* cost,
                     VerifierMetrics* metrics)
    : options_(options),
      state_(state),
      sessions_(sessions),
      scheduler_(scheduler),
      cost_(cost),
      metrics_(metrics) {}

void Admission::Count(Rejected reason) const {
  metrics_->rejected[static_cast<size_t>(reason)]->Increment();
}

std::optional<ReplyFailed> Admission::Refuse(const GenerationInput& input, bool draining,
                                             absl::Time now) const {
  if (draining) {
    Count(Rejected::kDraining);
    ReplyFailed failed = Failure(absl::UnavailableError("the verifier is draining"), "DRAINING");
    failed.retryable = true;
    return failed;
  }
  if (auto refusal = RefuseIdentity(input)) return refusal;
  if (auto refusal = RefuseDeadline(input, now)) return refusal;
  return RefuseOverload();
}

std::optional<ReplyFailed> Admission::RefuseIdentity(const GenerationInput& input) const {
  if (scheduler_->FindById(input.request_id) != nullptr) {
    return Failure(absl::AlreadyExistsError(absl::StrCat("request_id: a live request is named \"",
                                                         input.request_id, "\"")),
                   "REQUEST_EXISTS");
  }
  const size_t tokens = input.prompt.size() + input.emitted.size();
  if (input.prompt.size() > static_cast<size_t>(options_->max_prompt_tokens)) {
    Count(Rejected::kTooLong);
    return Failure(absl::OutOfRangeError(absl::StrCat("the prompt has ", input.prompt.size(),
                                                      " tokens, at most ",
                                                      options_->max_prompt_tokens, " are allowed")),
                   "PROMPT_TOO_LONG");
  }
  if (!input.session_id.empty()) return RefuseSession(input);
  if (tokens > 0) return std::nullopt;
  return Failure(absl::InvalidArgumentError("tokens.ids: must not be empty"), "EMPTY_INPUT");
}

std::optional<ReplyFailed> Admission::RefuseSession(const GenerationInput& input) const {
  const Session* const session = sessions_->Find(input.session_id);
  if (session == nullptr) {
    return Failure(absl::NotFoundError(
                       absl::StrCat("session.session_id: no session \"", input.session_id, "\"")),
                   "SESSION_UNKNOWN");
  }
  if (session->busy) {
    return Failure(absl::FailedPreconditionError(
                       absl::StrCat("session \"", input.session_id, "\" has a running request")),
                   "SESSION_BUSY");
  }
  if (input.expected_position && *input.expected_position != session->position()) {
    return Failure(absl::FailedPreconditionError(absl::StrCat(
                       "session.expected_position: session \"", input.session_id, "\" holds ",
                       session->position(), " tokens, not ", *input.expected_position)),
                   "POSITION_DIFFERS");
  }
  if (input.prompt.empty() && input.emitted.empty() && session->pending() == 0) {
    return Failure(absl::InvalidArgumentError(
                       absl::StrCat("tokens.ids: must not be empty, since session \"",
                                    input.session_id, "\" has no token that it has not consumed")),
                   "EMPTY_INPUT");
  }
  return std::nullopt;
}

int64_t Admission::WaitingRows() const {
  int64_t rows = 0;
  for (const auto& reply : scheduler_->waiting()) {
    rows += static_cast<int64_t>(reply->input().prompt.size() + reply->input().emitted.size());
  }
  return rows;
}

std::optional<ReplyFailed> Admission::RefuseDeadline(const GenerationInput& input,
                                                     absl::Time now) const {
  const absl::Duration left = input.deadline - now;
  if (left <= absl::ZeroDuration()) {
    Count(Rejected::kDeadline);
    return Failure(absl::DeadlineExceededError("the deadline passed before admission"),
                   "DEADLINE_PASSED");
  }
  const int64_t rows =
      WaitingRows() + static_cast<int64_t>(input.prompt.size() + input.emitted.size());
  const absl::Duration needed = cost_->Estimate(rows);
  if (needed <= left) return std::nullopt;
  Count(Rejected::kDeadline);
  return Failure(absl::DeadlineExceededError(
                     absl::StrCat("the deadline leaves ", absl::FormatDuration(left),
                                  ", the first token needs about ", absl::FormatDuration(needed))),
                 "DEADLINE_TOO_SHORT");
}

std::optional<ReplyFailed> Admission::RefuseOverload() const {
  const int free = state_->free_slots() + sessions_->idle_slots();
  const int waiting = static_cast<int>(scheduler_->waiting().size());
  if (waiting < options_->queue_limit + free) return std::nullopt;
  Count(options_->queue_limit == 0 ? Rejected::kSlotsFull : Rejected::kQueueFull);
  ReplyFailed failed = Failure(
      absl::ResourceExhaustedError(absl::StrCat(
          "all ", state_->slots(), " sequences are in use and as many requests wait as may (",
          options_->queue_limit, "); try again later")),
      options_->queue_limit == 0 ? "SLOTS_FULL" : "QUEUE_FULL");
  failed.retryable = true;
  failed.retry_after =
      std::clamp(cost_->Estimate(WaitingRows()), absl::Milliseconds(100), absl::Seconds(10));
  return failed;
}

}  // namespace tandem
