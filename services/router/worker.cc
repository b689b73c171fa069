#include "services/router/worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/client.h"
#include "common/rpc/status.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

constexpr absl::Duration kFirstBackOff = absl::Milliseconds(50);
constexpr absl::Duration kLastBackOff = absl::Milliseconds(500);
constexpr absl::Duration kCallTimeout = absl::Seconds(10);
// A verifier tells its load at least once a second.
constexpr absl::Duration kSilence = absl::Seconds(5);

std::chrono::system_clock::time_point CallDeadline() {
  return absl::ToChronoTime(absl::Now() + kCallTimeout);
}

}  // namespace

Worker::Worker(const std::string& address, const Options& options, WorkerAdmission* admission)
    : address_(address),
      router_id_(options.router_id),
      admission_(admission),
      // A failed request is resumed by the router, maybe elsewhere; gRPC has nothing to retry.
      channel_(MakeChannel(address, {.max_receive_bytes = options.max_message_bytes,
                                     .retries = false,
                                     .own_connection = true})),
      generation_(v1::GenerationService::NewStub(channel_)),
      sessions_(v1::SessionService::NewStub(channel_)),
      worker_(v1::WorkerService::NewStub(channel_)) {
  told_.error = absl::UnavailableError("not connected yet");
  thread_ = std::thread([this] { Loop(); });
}

Worker::~Worker() { Stop(); }

void Worker::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    up_ = false;
    if (context_ != nullptr) context_->TryCancel();
  }
  if (thread_.joinable()) thread_.join();
}

Worker::Status Worker::status() const {
  const absl::MutexLock lock(&mutex_);
  Status status = told_;
  status.standing.usable = up_ && told_.load.accepting() && absl::Now() >= suspect_until_;
  if (up_ && !told_.load.accepting()) {
    status.error = absl::UnavailableError("it takes no new work (loading or draining)");
  }
  return status;
}

bool Worker::IsAlive(const std::string& instance_id) const {
  const absl::MutexLock lock(&mutex_);
  return up_ && told_.instance_id == instance_id;
}

void Worker::CountSubmitted() {
  const absl::MutexLock lock(&mutex_);
  ++told_.standing.unreported;
}

void Worker::CountSession() {
  const absl::MutexLock lock(&mutex_);
  uint32_t& room = told_.standing.session_room;
  if (room != kUnlimited && room > 0) --room;
}

void Worker::Suspect(const absl::Status& error, absl::Duration pause) {
  const absl::MutexLock lock(&mutex_);
  suspect_until_ = absl::Now() + pause;
  told_.error = error;
}

void Worker::CheckSilence(absl::Time now) {
  const absl::MutexLock lock(&mutex_);
  if (up_ && context_ != nullptr && now - last_load_ > kSilence) context_->TryCancel();
}

bool Worker::SetContext(grpc::ClientContext* context) {
  const absl::MutexLock lock(&mutex_);
  // The caller drops its context when it hears that the worker stops.
  context_ = stopping_ ? nullptr : context;
  return !stopping_;
}

bool Worker::Pause(absl::Duration duration) {
  const absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&stopping_), duration);
}

void Worker::Loop() {
  absl::Duration back_off = kFirstBackOff;
  std::string last_message;
  do {
    const absl::Status ended = Watch();
    bool was_up = false;
    {
      const absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      was_up = std::exchange(up_, false);
      told_.instance_id.clear();
      told_.error = ended;
    }
    admission_->StandingChanged();
    if (was_up || last_message != ended.message()) {
      LOG(WARNING) << "verifier " << address_ << (was_up ? " is gone: " : " is not usable: ")
                   << ended.message();
    }
    last_message = std::string(ended.message());
    back_off = was_up ? kFirstBackOff : std::min(back_off * 2, kLastBackOff);
  } while (Pause(back_off));
}

absl::StatusOr<v1::GetWorkerResponse> Worker::GetInfo() {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  if (!SetContext(&context)) return absl::CancelledError("the router stops");
  v1::GetWorkerResponse info;
  const grpc::Status status = worker_->GetWorker(&context, {}, &info);
  SetContext(nullptr);
  RETURN_IF_ERROR(FromGrpc(status));
  return info;
}

absl::Status Worker::Watch() {
  ASSIGN_OR_RETURN(const v1::GetWorkerResponse info, GetInfo());
  RETURN_IF_ERROR(admission_->Admit(info, *this));
  grpc::ClientContext context;
  if (!SetContext(&context)) return absl::CancelledError("the router stops");
  v1::WatchLoadRequest request;
  request.set_router_id(router_id_);
  const auto reader = worker_->WatchLoad(&context, request);
  v1::WorkerLoad load;
  while (reader->Read(&load)) {
    if (load.instance_id() != info.instance_id()) {
      context.TryCancel();
      continue;
    }
    TakeLoad(load, info.instance_id());
  }
  const absl::Status ended = FromGrpc(reader->Finish());
  SetContext(nullptr);
  return ended.ok() ? absl::UnavailableError("it ended its load stream") : ended;
}

void Worker::TakeLoad(const v1::WorkerLoad& load, const std::string& instance_id) {
  bool changed = false;
  {
    const absl::MutexLock lock(&mutex_);
    changed = !up_ || told_.load.accepting() != load.accepting();
    if (stopping_) return;
    if (!up_) {
      suspect_until_ = absl::InfinitePast();
      told_.error = absl::OkStatus();
    }
    up_ = true;
    last_load_ = absl::Now();
    told_.instance_id = instance_id;
    told_.load = load;
    told_.standing = {.slots = load.state_slots(),
                      .slots_used = load.state_slots_used(),
                      .queued = load.queued()};
    if (load.has_max_sessions()) {
      told_.standing.session_room =
          load.max_sessions() - std::min(load.sessions(), load.max_sessions());
    }
  }
  if (!changed) return;
  LOG(INFO) << "verifier " << address_ << (load.accepting() ? " accepts work" : " refuses work");
  admission_->StandingChanged();
}

absl::StatusOr<std::string> Worker::FetchVocabulary() {
  grpc::ClientContext context;
  context.set_deadline(CallDeadline());
  if (!SetContext(&context)) return absl::CancelledError("the router stops");
  const auto reader = worker_->GetVocabulary(&context, {});
  std::string file;
  v1::VocabularyChunk chunk;
  while (reader->Read(&chunk)) {
    file += chunk.data();
    if (file.size() > kMaxVocabularyBytes) context.TryCancel();
  }
  const grpc::Status status = reader->Finish();
  SetContext(nullptr);
  if (file.size() > kMaxVocabularyBytes) {
    return absl::OutOfRangeError(
        absl::StrCat("its vocabulary has more than ", kMaxVocabularyBytes, " bytes"));
  }
  RETURN_IF_ERROR(FromGrpc(status));
  return file;
}

}  // namespace tandem
