#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/verifier/engine_loop.h"

namespace tandem {

void EngineLoop::Submit(uint64_t handle, absl::Time arrival, GenerationInput input,
                        std::shared_ptr<TokenSink> sink) {
  if (const auto refusal = admission_.Refuse(input, draining_, Now())) {
    sink->Failed(*refusal);
    return;
  }
  Session* const kept = input.session_id.empty() ? nullptr : sessions_.Find(input.session_id);
  if (kept != nullptr) kept->busy = true;
  scheduler_.Enqueue(
      std::make_unique<Reply>(handle, std::move(input), std::move(sink), kept, arrival));
}

void EngineLoop::Drop(uint64_t handle) {
  Reply* const reply = scheduler_.Find(handle);
  if (reply != nullptr) Fail(reply, absl::CancelledError("the client is gone"), "CANCELLED");
}

absl::Status EngineLoop::Cancel(const std::string& request_id, std::optional<int64_t> retain) {
  Reply* const reply = scheduler_.FindById(request_id);
  if (reply != nullptr) {
    if (retain) return Retain(reply, *retain);
    Fail(reply, absl::CancelledError("the request was cancelled"), "CANCELLED");
    return absl::OkStatus();
  }
  if (!ended_ids_.Contains(request_id)) {
    return absl::NotFoundError(absl::StrCat("request_id: no request \"", request_id, "\""));
  }
  return retain ? CutFinished(request_id, *retain) : absl::OkStatus();
}

absl::Status EngineLoop::Retain(Reply* reply, int64_t tokens) {
  const int64_t generated =
      reply->running() ? reply->generated() : static_cast<int64_t>(reply->input().emitted.size());
  if (tokens > generated) {
    return absl::OutOfRangeError(
        absl::StrCat("retain_tokens: the reply has ", generated, " tokens, not ", tokens));
  }
  const absl::Time now = Now();
  if (!reply->running()) reply->Begin(*state_, now);
  Session& session = reply->session();
  const int64_t position = session.reply_begin + tokens;
  if (session.kept()) {
    session.Cut(*state_, position);
    session.Settle(*state_);
  }
  reply->sink().Finished({.cause = FinishCause::kStopText,
                          .position = position,
                          .usage = reply->UsageUpTo(tokens),
                          .timings = reply->Timings(now)});
  Remove(reply, /*finished=*/true);
  return absl::OkStatus();
}

absl::Status EngineLoop::CutFinished(const std::string& request_id, int64_t tokens) {
  Session* const session = sessions_.FindByRequest(request_id);
  if (session == nullptr) return absl::OkStatus();  // nothing of it is kept
  const int64_t generated = session->position() - session->reply_begin;
  if (tokens > generated) {
    return absl::OutOfRangeError(
        absl::StrCat("retain_tokens: the reply has ", generated, " tokens, not ", tokens));
  }
  session->Cut(*state_, session->reply_begin + tokens);
  return absl::OkStatus();
}

void EngineLoop::Finish(Reply* reply, const Ending& ending) {
  const absl::Time now = Now();
  Session& session = reply->session();
  if (session.kept()) session.Settle(*state_);
  reply->sink().Finished({.cause = ending.cause,
                          .stop_token = ending.stop_token,
                          .position = session.position(),
                          .usage = reply->usage(),
                          .timings = reply->Timings(now)});
  Remove(reply, /*finished=*/true);
}

void EngineLoop::Fail(Reply* reply, absl::Status status, const std::string& reason) {
  if (reply->running() && reply->session().kept()) reply->session().Restore();
  const bool retryable = absl::IsUnavailable(status);
  reply->sink().Failed({.status = std::move(status),
                        .reason = reason,
                        .retryable = retryable,
                        .usage = reply->usage()});
  Remove(reply, /*finished=*/false);
}

void EngineLoop::Remove(Reply* reply, bool finished) {
  const absl::Time now = Now();
  metrics_->request_seconds.Observe(absl::ToDoubleSeconds(now - reply->arrival()));
  Session& session = reply->session();
  const std::string& id = reply->input().request_id;
  session.busy = false;
  session.last_used_at = now;
  session.last_request_id = finished ? id : "";
  ended_ids_.Add(id);
  exchange_.Forget(reply);
  scheduler_.Remove(reply);
}

absl::StatusOr<SessionInfo> EngineLoop::OpenSession(SessionOptions options) {
  absl::StatusOr<Session*> session = draining_ ? absl::UnavailableError("the verifier is draining")
                                               : sessions_.Open(std::move(options), Now());
  metrics_->SessionOperations("open", absl::StatusCodeToString(session.status().code()))
      .Increment();
  if (!session.ok()) return session.status();
  return (*session)->Info();
}

absl::StatusOr<SessionInfo> EngineLoop::DescribeSession(const std::string& id) const {
  const Session* const session = sessions_.Find(id);
  if (session == nullptr) {
    return absl::NotFoundError(absl::StrCat("session_id: no session \"", id, "\""));
  }
  return session->Info();
}

std::vector<SessionInfo> EngineLoop::ListSessions(const std::string& after, int limit) const {
  return sessions_.List(after, limit);
}

absl::Status EngineLoop::CloseSession(const std::string& id) {
  Session* const session = sessions_.Find(id);
  if (session == nullptr) {
    metrics_->SessionOperations("close", "NOT_FOUND").Increment();
    return absl::NotFoundError(absl::StrCat("session_id: no session \"", id, "\""));
  }
  for (const auto* replies : {&scheduler_.waiting(), &scheduler_.running()}) {
    const auto it = std::find_if(replies->begin(), replies->end(), [session](const auto& reply) {
      return &reply->session() == session;
    });
    if (it == replies->end()) continue;
    Fail(it->get(), absl::CancelledError("the session was closed"), "SESSION_CLOSED");
    break;
  }
  sessions_.Close(id);
  metrics_->SessionOperations("close", "OK").Increment();
  return absl::OkStatus();
}

void EngineLoop::Drain(absl::Duration timeout, std::function<void()> done) {
  draining_ = true;
  drain_deadline_ = std::min(drain_deadline_, Now() + timeout);
  drained_.push_back(std::move(done));
}

void EngineLoop::FailAll(const std::string& message) {
  while (!scheduler_.empty()) {
    const auto& replies =
        scheduler_.waiting().empty() ? scheduler_.running() : scheduler_.waiting();
    Fail(replies.back().get(), absl::UnavailableError(message), "DRAINING");
  }
}

}  // namespace tandem
