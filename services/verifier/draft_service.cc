#include "services/verifier/draft_service.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/server.h"
#include "services/verifier/draft_service_messages.h"
#include "tandem/v1/draft.grpc.pb.h"

namespace tandem {
namespace {

using ipc::Clock;

constexpr absl::Duration kTick = absl::Milliseconds(50);

bool Passed(Clock::time_point since, double seconds) {
  return std::chrono::duration<double>(Clock::now() - since).count() > seconds;
}

// One drafter's stream. Kept alive by the service's list until gRPC is done with it.
class AttachStream final : public grpc::ServerBidiReactor<v1::DrafterMessage, v1::VerifierMessage> {
 public:
  AttachStream(const DraftService::Options* options, DraftAttachment* attachment,
               std::function<void()> wake)
      : options_(options), attachment_(attachment), wake_(std::move(wake)) {}

  void Begin(std::shared_ptr<AttachStream> self) {
    self_ = std::move(self);
    StartRead(&in_);
  }
  // What time brings: the probe, heartbeats, leases. On the service's thread.
  void Tick();
  // Ends the attachment if it is `epoch` (0: whatever is attached).
  void Revoke(uint64_t epoch, const std::string& reason);
  bool done() const {
    absl::MutexLock lock(&mu_);
    return phase_ == Phase::kDone;
  }

 private:
  enum class Phase { kHello, kOffered, kProven, kLive, kRevoked, kOver, kDone };

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  void Handle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleHello() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleProof() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Refuse(const DraftRefusal& refusal) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RevokeLocked(const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Probe();
  void Enter(Phase phase) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Send(v1::VerifierMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Finishes once everything said has left.
  void FinishSoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const DraftService::Options* const options_;
  DraftAttachment* const attachment_;
  const std::function<void()> wake_;
  std::shared_ptr<AttachStream> self_;
  v1::DrafterMessage in_;  // owned by gRPC while a read runs

  mutable absl::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kHello;
  Clock::time_point entered_ ABSL_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point heard_ ABSL_GUARDED_BY(mu_) = Clock::now();
  Clock::time_point sent_ ABSL_GUARDED_BY(mu_) = Clock::now();
  uint64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<v1::VerifierMessage> outbox_ ABSL_GUARDED_BY(mu_);  // front: being written
  bool finish_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

void AttachStream::Enter(Phase phase) {
  phase_ = phase;
  entered_ = Clock::now();
}

void AttachStream::Send(v1::VerifierMessage message) {
  if (finish_wanted_) return;
  sent_ = Clock::now();
  outbox_.push_back(std::move(message));
  if (outbox_.size() == 1) StartWrite(&outbox_.front());
}

void AttachStream::FinishSoon() {
  if (phase_ != Phase::kOver) Enter(Phase::kOver);
  finish_wanted_ = true;
  if (finished_ || !outbox_.empty()) return;
  finished_ = true;
  Finish(grpc::Status::OK);
}

void AttachStream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu_);
  if (ok) {
    outbox_.pop_front();
  } else {
    outbox_.clear();
  }
  if (!outbox_.empty()) {
    StartWrite(&outbox_.front());
  } else if (finish_wanted_) {
    FinishSoon();
  }
}

void AttachStream::OnReadDone(bool ok) {
  absl::MutexLock lock(&mu_);
  if (!ok) {
    // Nothing else will come: the peer closed the stream or is gone.
    attachment_->End(epoch_, "died");
    FinishSoon();
    return;
  }
  heard_ = Clock::now();
  Handle();
  // Once the end is decided gRPC may drop the call at any time.
  if (finish_wanted_) return;
  in_.Clear();
  StartRead(&in_);
}

void AttachStream::OnDone() {
  std::shared_ptr<AttachStream> self = std::move(self_);
  absl::MutexLock lock(&mu_);
  Enter(Phase::kDone);
}

void AttachStream::Handle() {
  switch (in_.message_case()) {
    case v1::DrafterMessage::kHello:
      return HandleHello();
    case v1::DrafterMessage::kProof:
      return HandleProof();
    case v1::DrafterMessage::kHeartbeat:
      return;
    case v1::DrafterMessage::kClosed:
      if (in_.closed().epoch() == epoch_) attachment_->Closed(epoch_);
      return FinishSoon();
    case v1::DrafterMessage::MESSAGE_NOT_SET:
      return Refuse({"PROTOCOL_ERROR", "a message of an unknown kind"});
  }
}

void AttachStream::Refuse(const DraftRefusal& refusal) {
  LOG(WARNING) << "drafter refused: " << refusal.reason << ": " << refusal.message;
  attachment_->End(epoch_, "revoked");
  v1::VerifierMessage message;
  message.mutable_refusal()->set_reason(refusal.reason);
  message.mutable_refusal()->set_message(refusal.message);
  Send(std::move(message));
  FinishSoon();
}

void AttachStream::HandleHello() {
  if (phase_ != Phase::kHello) return Refuse({"PROTOCOL_ERROR", "a second hello"});
  const auto result = attachment_->Hello(FactsOf(in_.hello()));
  if (const auto* refusal = std::get_if<DraftRefusal>(&result)) return Refuse(*refusal);
  const DraftOffer& offer = std::get<DraftOffer>(result);
  epoch_ = offer.epoch;
  Enter(Phase::kOffered);
  v1::VerifierMessage message;
  *message.mutable_offer() = OfferOf(*options_, offer);
  Send(std::move(message));
}

void AttachStream::HandleProof() {
  if (phase_ != Phase::kOffered || in_.proof().epoch() != epoch_) {
    return Refuse({"PROTOCOL_ERROR", "a proof that is not due"});
  }
  if (const auto refusal = attachment_->Prove(epoch_, in_.proof().answer())) {
    return Refuse(*refusal);
  }
  Enter(Phase::kProven);
  wake_();
}

void AttachStream::Probe() {
  uint64_t epoch = 0;
  {
    absl::MutexLock lock(&mu_);
    if (phase_ != Phase::kProven) return;
    epoch = epoch_;
  }
  // Blocks for up to a second: gRPC's threads must not wait for it.
  const absl::Status probed = attachment_->Probe(epoch);
  absl::MutexLock lock(&mu_);
  if (phase_ != Phase::kProven) return;
  if (!probed.ok()) return Refuse({"TOO_SLOW", std::string(probed.message())});
  Enter(Phase::kLive);
  const bool device = attachment_->Activate(epoch);
  v1::VerifierMessage message;
  message.mutable_ready()->set_epoch(epoch);
  message.mutable_ready()->set_mode(device ? "device" : "host");
  Send(std::move(message));
}

void AttachStream::Tick() {
  Probe();
  absl::MutexLock lock(&mu_);
  switch (phase_) {
    case Phase::kHello:
    case Phase::kOffered:
      if (Passed(entered_, options_->handshake_seconds)) {
        Refuse({"TOO_SLOW", absl::StrCat("no ", phase_ == Phase::kHello ? "hello" : "proof",
                                         " within ", options_->handshake_seconds, " s")});
      }
      return;
    case Phase::kLive:
      if (Passed(heard_, options_->lease_seconds)) {
        attachment_->End(epoch_, "late");
        return RevokeLocked("no heartbeat");
      }
      if (Passed(sent_, std::min(1.0, options_->lease_seconds / 3))) {
        v1::VerifierMessage message;
        message.mutable_heartbeat()->set_epoch(epoch_);
        Send(std::move(message));
      }
      return;
    case Phase::kRevoked:
      if (Passed(entered_, options_->revoke_seconds)) FinishSoon();
      return;
    case Phase::kProven:
    case Phase::kOver:
    case Phase::kDone:
      return;
  }
}

void AttachStream::Revoke(uint64_t epoch, const std::string& reason) {
  absl::MutexLock lock(&mu_);
  if (epoch != 0 && epoch != epoch_) return;
  if (phase_ == Phase::kOffered || phase_ == Phase::kProven || phase_ == Phase::kLive) {
    attachment_->End(epoch_, "revoked");
    RevokeLocked(reason);
  }
}

void AttachStream::RevokeLocked(const std::string& reason) {
  Enter(Phase::kRevoked);
  v1::VerifierMessage message;
  message.mutable_revoke()->set_epoch(epoch_);
  message.mutable_revoke()->set_reason(reason);
  Send(std::move(message));
}

}  // namespace

struct DraftService::Impl final : public v1::DraftService::CallbackService {
  grpc::ServerBidiReactor<v1::DrafterMessage, v1::VerifierMessage>* Attach(
      grpc::CallbackServerContext*) override;
  void Run();
  void Wake();
  std::vector<std::shared_ptr<AttachStream>> Streams();

  Options options;
  DraftAttachment* attachment = nullptr;
  absl::Mutex mu;
  bool woken ABSL_GUARDED_BY(mu) = false;
  bool stop ABSL_GUARDED_BY(mu) = false;
  std::set<std::shared_ptr<AttachStream>> streams ABSL_GUARDED_BY(mu);
  std::thread thread;
  std::unique_ptr<ServerRunner> server;
};

grpc::ServerBidiReactor<v1::DrafterMessage, v1::VerifierMessage>* DraftService::Impl::Attach(
    grpc::CallbackServerContext*) {
  auto stream = std::make_shared<AttachStream>(&options, attachment, [this] { Wake(); });
  {
    absl::MutexLock lock(&mu);
    streams.insert(stream);
  }
  stream->Begin(stream);
  return stream.get();
}

void DraftService::Impl::Wake() {
  absl::MutexLock lock(&mu);
  woken = true;
}

std::vector<std::shared_ptr<AttachStream>> DraftService::Impl::Streams() {
  std::vector<std::shared_ptr<AttachStream>> all;
  {
    absl::MutexLock lock(&mu);
    all.assign(streams.begin(), streams.end());
  }
  // A stream wakes this object while it holds its own lock, so its lock is never taken under `mu`.
  for (const auto& stream : all) {
    if (!stream->done()) continue;
    absl::MutexLock lock(&mu);
    streams.erase(stream);
  }
  return all;
}

void DraftService::Impl::Run() {
  for (;;) {
    {
      absl::MutexLock lock(&mu);
      const auto due = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return woken || stop; };
      mu.AwaitWithTimeout(absl::Condition(&due), kTick);
      woken = false;
      if (stop) return;
    }
    const std::vector<uint64_t> condemned = attachment->TakeCondemned();
    for (const auto& stream : Streams()) {
      for (const uint64_t epoch : condemned) stream->Revoke(epoch, "too late too often");
      stream->Tick();
    }
  }
}

absl::StatusOr<std::unique_ptr<DraftService>> DraftService::Start(const Options& options,
                                                                  DraftAttachment* attachment) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->attachment = attachment;
  ASSIGN_OR_RETURN(impl->server, ServerRunner::Start({.address = "unix:" + options.socket,
                                                      .services = {impl.get()}}));
  if (chmod(options.socket.c_str(), S_IRUSR | S_IWUSR) != 0) {
    return ErrnoStatus(errno, absl::StrCat("mode of ", options.socket));
  }
  impl->thread = std::thread([raw = impl.get()] { raw->Run(); });
  return std::unique_ptr<DraftService>(new DraftService(std::move(impl)));
}

DraftService::DraftService(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DraftService::~DraftService() {
  impl_->server->Shutdown();
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->stop = true;
  }
  impl_->thread.join();
}

void DraftService::Drain() {
  impl_->attachment->Drain();
  for (const auto& stream : impl_->Streams()) stream->Revoke(0, "draining");
}

}  // namespace tandem
