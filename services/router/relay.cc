#include "services/router/relay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "services/router/call_unary.h"

namespace tandem {
namespace {

constexpr absl::Duration kFirstBackOff = absl::Milliseconds(10);
constexpr absl::Duration kLastBackOff = absl::Milliseconds(200);
constexpr absl::Duration kSuspicion = absl::Milliseconds(200);
constexpr absl::Duration kOpenTimeout = absl::Seconds(10);
constexpr absl::Duration kRetryDelay = absl::Seconds(1);
// An INTERNAL error is tried again in case it was the connection's, not the request's.
constexpr int kInternalFailures = 2;
constexpr int kSessionMoves = 3;
constexpr size_t kIdPrefix = 96;

// Whether a call that ended with this status may succeed elsewhere.
bool MayRetry(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kCancelled:  // not by us: a verifier that shuts down
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<Relay>> Relay::Create(const RelayContext* context, Request request) {
  ASSIGN_OR_RETURN(Reply reply,
                   Reply::Create(request.plan.model->vocabulary.get(), request.plan.reply));
  RETURN_IF_ERROR(reply.Skip(request.plan.emitted_ids));
  return std::shared_ptr<Relay>(new Relay(context, std::move(request), std::move(reply)));
}

Relay::Relay(const RelayContext* context, Request request, Reply reply)
    : context_(context),
      request_(std::move(request)),
      reply_(std::move(reply)),
      times_(request_.arrival, context->metrics()) {
  context_->count->Add(1);
}

Relay::~Relay() { context_->count->Add(-1); }

void Relay::Start(std::shared_ptr<ReplySink> sink) {
  sink_ = std::move(sink);
  if (request_.session != nullptr) {
    request_.session->OnClose([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Cancel();
    });
  }
  Submit();
}

bool Relay::cancelled() const {
  const absl::MutexLock lock(&mutex_);
  return cancelled_;
}

bool Relay::abandoned() const {
  const absl::MutexLock lock(&mutex_);
  return cancelled_ || slow_;
}

std::shared_ptr<Attempt> Relay::attempt() const {
  const absl::MutexLock lock(&mutex_);
  return attempt_;
}

void Relay::Cancel() {
  std::shared_ptr<Attempt> attempt;
  std::shared_ptr<grpc::Alarm> alarm;
  {
    const absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    attempt = attempt_;
    alarm = alarm_;
  }
  if (attempt != nullptr) attempt->Cancel();
  if (alarm != nullptr) alarm->Cancel();
}

void Relay::StartAlarm(absl::Time time, std::function<void(bool rang)> call) {
  auto owner = std::make_shared<grpc::Alarm>();
  const absl::MutexLock lock(&mutex_);
  alarm_ = owner;
  // The callback runs on a thread of gRPC, also when the alarm is cancelled or destroyed.
  owner->Set(absl::ToChronoTime(cancelled_ ? absl::UnixEpoch() : time),
             [self = shared_from_this(), alarm = owner.get(), call = std::move(call)](bool rang) {
               std::shared_ptr<grpc::Alarm> over;
               {
                 const absl::MutexLock lock_again(&self->mutex_);
                 if (self->alarm_.get() == alarm) over = std::move(self->alarm_);
               }
               call(rang && over != nullptr);
             });
}

void Relay::Submit() {
  if (cancelled()) return Fail(absl::CancelledError("the request was cancelled"));
  if (FinishLocally()) return;
  SessionUse* const session = request_.session.get();
  if (session != nullptr && session->place().has_value()) {
    const SessionPlace place = *session->place();
    if (place.worker->IsAlive(place.instance_id)) return SubmitTo(place.worker, true);
    session->Forget();
  }
  const std::shared_ptr<Worker> worker = context_->pool->Pick(full_.get(), session != nullptr);
  if (worker == nullptr) return WaitAndSubmit(context_->pool->NotReady());
  if (session != nullptr) return OpenSessionOn(worker);
  SubmitTo(worker, false);
}

void Relay::OpenSessionOn(const std::shared_ptr<Worker>& worker) {
  v1::OpenSessionRequest request;
  request.set_session_id(absl::StrCat("router-", RandomId()));
  request.set_idle_timeout_seconds(request_.session->idle_timeout_seconds());
  request.set_router_id(context_->router_id);
  const std::string instance_id = worker->status().instance_id;
  worker->CountSession();
  CallUnary<v1::SessionService::Stub::async_interface, v1::OpenSessionRequest, v1::Session>(
      worker->sessions().async(), &v1::SessionService::Stub::async_interface::OpenSession,
      std::move(request), kOpenTimeout,
      [self = shared_from_this(), worker, instance_id](const absl::Status& status,
                                                       const v1::Session& session) {
        if (!status.ok()) return self->OnFailure(status, MayRetry(status.code()), worker);
        self->request_.session->MoveTo(
            {.worker = worker, .instance_id = instance_id, .session_id = session.session_id()});
        self->SubmitTo(worker, false);
      });
}

v1::GenerateRequest Relay::MakeRequest(bool resident) {
  const Plan& plan = request_.plan;
  v1::GenerateRequest request = plan.base;
  // A name of its own per attempt: a verifier may still be winding up the last one.
  request.set_request_id(
      absl::StrCat(plan.request_id.substr(0, kIdPrefix), ":", RandomId(), "-", ++attempts_));
  std::vector<uint32_t> ids;
  if (request_.session != nullptr) {
    const absl::Span<const uint32_t> history = request_.session->history();
    v1::SessionReference& reference = *request.mutable_session();
    reference.set_session_id(request_.session->place()->session_id);
    reference.set_expected_position(resident ? history.size() : 0);
    if (!resident) ids.assign(history.begin(), history.end());
  }
  ids.insert(ids.end(), plan.input_ids.begin(), plan.input_ids.end());
  if (!ids.empty()) {
    *request.mutable_tokens()->mutable_ids() = {ids.begin(), ids.end()};
  }
  if (!reply_.ids().empty()) {
    *request.mutable_resume()->mutable_emitted_ids() = {reply_.ids().begin(), reply_.ids().end()};
  }
  return request;
}

void Relay::SubmitTo(const std::shared_ptr<Worker>& worker, bool resident) {
  attempt_started_ = false;
  failed_.reset();
  broken_ = absl::OkStatus();
  auto attempt = Attempt::Create(worker, MakeRequest(resident), request_.metadata,
                                 request_.deadline, shared_from_this());
  bool cancelled = false;
  {
    const absl::MutexLock lock(&mutex_);
    cancelled = cancelled_;
    if (!cancelled) attempt_ = attempt;
  }
  if (cancelled) return Fail(absl::CancelledError("the request was cancelled"));
  submitted_ = true;
  attempt->Start();
}

void Relay::OnEnd(const absl::Status& status) {
  std::shared_ptr<Attempt> attempt;
  bool slow = false;
  {
    const absl::MutexLock lock(&mutex_);
    attempt = std::exchange(attempt_, nullptr);
    slow = slow_;
  }
  if (ended_) return;
  if (stop_index_.has_value()) return StopPartDone();
  const std::shared_ptr<Worker>& worker = attempt->worker();
  if (slow) {
    return Fail(ReasonError(absl::StatusCode::kCancelled, "SLOW_READER",
                            "the client did not read for too long"));
  }
  if (!broken_.ok()) return OnFailure(broken_, true, worker);
  if (failed_.has_value()) {
    absl::Status failure(static_cast<absl::StatusCode>(failed_->code()), failed_->message());
    SetReason(failure, failed_->reason());
    return OnFailure(failure, failed_->retryable(), worker);
  }
  if (status.ok()) {
    return OnFailure(absl::UnavailableError("the verifier ended the stream without a result"), true,
                     worker);
  }
  OnFailure(status, MayRetry(status.code()), worker);
}

void Relay::OnFailure(const absl::Status& status, bool retryable,
                      const std::shared_ptr<Worker>& worker) {
  if (cancelled()) return Fail(absl::CancelledError("the request was cancelled"));
  if (absl::IsDeadlineExceeded(status)) return Fail(status);
  if (absl::Now() >= request_.deadline) {
    return Fail(absl::DeadlineExceededError("the deadline passed"));
  }
  if (MoveSession(status)) return Submit();
  if (absl::IsResourceExhausted(status) && !started_) {
    if (Hop(status, worker)) return Submit();
    return Fail(status);
  }
  if (absl::IsInternal(status) && ++internal_failures_ > kInternalFailures) retryable = false;
  if (!retryable) return Fail(status);
  if (started_) {
    LOG(WARNING) << "request " << request_.plan.request_id << " lost verifier " << worker->address()
                 << " after " << reply_.ids().size()
                 << " tokens and will be resumed: " << status.message();
  }
  if (absl::IsUnavailable(status)) worker->Suspect(status, kSuspicion);
  if (request_.session != nullptr) request_.session->Forget();
  WaitAndSubmit(status);
}

// A session that is not where or not as it should be is computed again from its tokens.
bool Relay::MoveSession(const absl::Status& status) {
  SessionUse* const session = request_.session.get();
  const bool is_misplaced =
      absl::IsNotFound(status) || absl::IsFailedPrecondition(status) || absl::IsAborted(status);
  if (session == nullptr || attempt_started_ || !is_misplaced) return false;
  if (!session->place().has_value() || ++session_moves_ > kSessionMoves) return false;
  LOG(WARNING) << "request " << request_.plan.request_id
               << ": its session is recomputed: " << status.message();
  session->Forget();
  return true;
}

// A full verifier is left for another one, once.
bool Relay::Hop(const absl::Status& status, const std::shared_ptr<Worker>& worker) {
  if (full_ != nullptr || context_->pool->Pick(worker.get()) == nullptr) return false;
  LOG(INFO) << "request " << request_.plan.request_id << " leaves " << worker->address() << ": "
            << status.message();
  full_ = worker;
  if (request_.session != nullptr) request_.session->Forget();
  return true;
}

void Relay::WaitAndSubmit(const absl::Status& why) {
  const absl::Time now = absl::Now();
  if (give_up_ == absl::InfiniteFuture()) {
    give_up_ = now + (submitted_ ? context_->options.resume_timeout : context_->options.start_wait);
    back_off_ = kFirstBackOff;
  }
  full_ = nullptr;
  if (now >= request_.deadline) return Fail(absl::DeadlineExceededError("the deadline passed"));
  if (now >= give_up_) {
    if (!started_) return Fail(why);
    return Fail(RetryLaterError(
        absl::StatusCode::kUnavailable, "RESUME_TIMEOUT",
        absl::StrCat("no verifier could resume the stream within ",
                     absl::FormatDuration(context_->options.resume_timeout), ": ", why.message()),
        kRetryDelay));
  }
  const absl::Time next = std::min({now + back_off_, give_up_, request_.deadline});
  back_off_ = std::min(back_off_ * 2, kLastBackOff);
  StartAlarm(next, [this](bool) { Submit(); });
}

bool Relay::WantsPause() {
  return !ended_ && !stop_index_.has_value() && !abandoned() &&
         sink_->pending_tokens() > context_->options.max_pending_tokens;
}

void Relay::ClientCaughtUp() {
  if (sink_->pending_tokens() > context_->options.max_pending_tokens) return;
  std::shared_ptr<grpc::Alarm> alarm;
  std::shared_ptr<Attempt> attempt;
  {
    const absl::MutexLock lock(&mutex_);
    attempt = attempt_;
    // Without an attempt the alarm is one for the next submission.
    if (attempt != nullptr) alarm = std::move(alarm_);
  }
  if (attempt != nullptr) attempt->Resume();
}

void Relay::OnPaused() {
  StartAlarm(absl::Now() + context_->options.slow_reader_timeout,
             [this, paused = attempt()](bool rang) {
               if (!rang || paused == nullptr || !paused->paused()) return;
               {
                 const absl::MutexLock lock(&mutex_);
                 if (attempt_ != paused) return;
                 slow_ = true;
               }
               paused->Cancel();
             });
}

}  // namespace tandem
