#include "services/drafter/attach_client.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/rpc/client.h"
#include "tandem/v1/draft.grpc.pb.h"

namespace tandem {
namespace {

constexpr absl::Duration kCloseGrace = absl::Seconds(1);

v1::DrafterMessage HelloMessage(const AttachClient::Hello& hello) {
  v1::DrafterMessage message;
  v1::DrafterHello& out = *message.mutable_hello();
  v1::ProcessIdentity& id = *out.mutable_identity();
  id.set_protocol_major(hello.identity.protocol_major);
  id.set_protocol_minor(hello.identity.protocol_minor);
  id.set_boot_id(hello.identity.boot_id);
  id.set_pid_namespace(hello.identity.pid_namespace);
  id.set_pid(hello.identity.pid);
  id.set_uid(hello.identity.uid);
  id.set_backend(hello.identity.backend);
  id.set_device_uuid(hello.identity.device_uuid);
  id.set_mps(hello.identity.mps);
  out.set_base_model(hello.sidecar.base_model);
  out.set_base_layers(static_cast<uint32_t>(hello.sidecar.layers));
  out.set_base_width(static_cast<uint32_t>(hello.sidecar.width));
  for (const int tap : hello.sidecar.taps) out.add_taps(static_cast<uint32_t>(tap));
  out.set_kind("mtp");
  out.set_depth(static_cast<uint32_t>(hello.sidecar.depth));
  out.set_window(static_cast<uint32_t>(hello.sidecar.window));
  out.set_max_drafts(static_cast<uint32_t>(hello.sidecar.max_drafts));
  out.set_sidecar_hash(hello.sidecar.hash);
  out.set_force(hello.sidecar.force);
  out.set_closed_epoch(hello.closed_epoch);
  return message;
}

absl::StatusOr<AttachOffer> OfferFrom(const v1::Offer& message) {
  if (message.offsets_size() != ipc::Layout::kOffsets) {
    return absl::AbortedError(absl::StrCat("the offer has ", message.offsets_size(),
                                           " offsets, must have ", int{ipc::Layout::kOffsets}));
  }
  AttachOffer offer;
  offer.model = message.base_model();
  offer.layers = static_cast<int>(message.layers());
  offer.epoch = message.epoch();
  offer.lease_seconds = message.lease_timeout_ms() * 1e-3;
  offer.layout_version = message.layout_version();
  offer.layout.sizes = {.slots = static_cast<int32_t>(message.slots()),
                        .max_lanes = static_cast<int32_t>(message.max_lanes()),
                        .max_rows = static_cast<int32_t>(message.max_rows()),
                        .width = static_cast<int32_t>(message.width()),
                        .vocab = static_cast<int32_t>(message.vocabulary_size())};
  offer.layout.control_bytes = message.control_bytes();
  offer.layout.feature_bytes = message.feature_bytes();
  std::copy(message.offsets().begin(), message.offsets().end(), offer.layout.offsets.begin());
  offer.descriptor_socket = message.descriptor_socket();
  offer.descriptor_token = message.descriptor_token();
  offer.embedding_bytes = message.embedding_bytes();
  offer.head_bytes = message.head_bytes();
  offer.head_format = message.head_format();
  offer.nonce = message.nonce();
  offer.device = message.device();
  offer.feature_handle = message.feature_handle();
  offer.embedding_handle = message.embedding_handle();
  offer.head_handle = message.head_handle();
  return offer;
}

}  // namespace

struct AttachClient::Impl final
    : public grpc::ClientBidiReactor<v1::DrafterMessage, v1::VerifierMessage> {
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& result) override;

  void Handle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Send(v1::DrafterMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Over(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void CloseWrites() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void KeepAlive(uint64_t lease_epoch, absl::Duration lease);

  std::unique_ptr<v1::DraftService::Stub> stub;
  grpc::ClientContext context;
  v1::VerifierMessage in;  // gRPC's while a read runs
  std::thread heartbeats;
  std::atomic<bool> over{false};
  std::atomic<bool> ready{false};
  std::atomic<bool> device_mode{false};

  mutable absl::Mutex mu;
  absl::Status status ABSL_GUARDED_BY(mu);
  std::optional<absl::StatusOr<AttachOffer>> offer ABSL_GUARDED_BY(mu);
  absl::Time heard ABSL_GUARDED_BY(mu) = absl::Now();
  std::deque<v1::DrafterMessage> outbox ABSL_GUARDED_BY(mu);  // front: being written
  bool closing ABSL_GUARDED_BY(mu) = false;
  bool writes_done ABSL_GUARDED_BY(mu) = false;
  bool read_failed ABSL_GUARDED_BY(mu) = false;
  bool done ABSL_GUARDED_BY(mu) = false;
};

void AttachClient::Impl::Over(absl::Status why) {
  if (over.load()) return;
  status = std::move(why);
  over.store(true);
  if (!offer) offer = status;
}

void AttachClient::Impl::Send(v1::DrafterMessage message) {
  if (closing) return;
  outbox.push_back(std::move(message));
  if (outbox.size() == 1) StartWrite(&outbox.front());
}

void AttachClient::Impl::CloseWrites() {
  closing = true;
  if (writes_done || read_failed || !outbox.empty()) return;
  writes_done = true;
  StartWritesDone();
}

void AttachClient::Impl::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mu);
  if (ok) {
    outbox.pop_front();
  } else {
    outbox.clear();
  }
  if (!outbox.empty()) {
    StartWrite(&outbox.front());
  } else if (closing && ok) {
    CloseWrites();
  }
}

void AttachClient::Impl::OnReadDone(bool ok) {
  absl::MutexLock lock(&mu);
  if (!ok) {
    read_failed = true;
    Over(absl::UnavailableError("no verifier, or it closed the stream"));
    return;
  }
  heard = absl::Now();
  Handle();
  in.Clear();
  StartRead(&in);
}

void AttachClient::Impl::Handle() {
  switch (in.message_case()) {
    case v1::VerifierMessage::kOffer:
      if (!offer) offer = OfferFrom(in.offer());
      return;
    case v1::VerifierMessage::kRefusal:
      return Over(absl::FailedPreconditionError(
          absl::StrCat(in.refusal().reason(), ": ", in.refusal().message())));
    case v1::VerifierMessage::kReady:
      device_mode.store(in.ready().mode() == "device");
      ready.store(true);
      return;
    case v1::VerifierMessage::kHeartbeat:
      return;
    case v1::VerifierMessage::kRevoke:
      return Over(absl::CancelledError(absl::StrCat("revoked: ", in.revoke().reason())));
    case v1::VerifierMessage::MESSAGE_NOT_SET:
      return Over(absl::AbortedError("the verifier sent a message of an unknown kind"));
  }
}

void AttachClient::Impl::OnDone(const grpc::Status&) {
  absl::MutexLock lock(&mu);
  done = true;
}

void AttachClient::Impl::KeepAlive(uint64_t lease_epoch, absl::Duration lease) {
  const absl::Duration interval = std::min(absl::Seconds(1), lease / 3);
  absl::MutexLock lock(&mu);
  const auto ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) { return closing; };
  while (!mu.AwaitWithTimeout(absl::Condition(&ended), interval)) {
    v1::DrafterMessage message;
    message.mutable_heartbeat()->set_epoch(lease_epoch);
    Send(std::move(message));
    if (absl::Now() - heard > lease) {
      Over(absl::DeadlineExceededError("no sign of life from the verifier"));
    }
  }
}

AttachClient::AttachClient(const std::string& socket, const Hello& hello)
    : impl_(std::make_unique<Impl>()) {
  impl_->stub = v1::DraftService::NewStub(
      MakeChannel("unix:" + socket, {.retries = false, .own_connection = true}));
  impl_->stub->async()->Attach(&impl_->context, impl_.get());
  // Writes start on other threads than gRPC's: without a hold the call could end under one.
  impl_->AddHold();
  impl_->StartCall();
  absl::MutexLock lock(&impl_->mu);
  impl_->StartRead(&impl_->in);
  impl_->Send(HelloMessage(hello));
}

AttachClient::~AttachClient() {
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->CloseWrites();
    if (!impl_->mu.AwaitWithTimeout(absl::Condition(&impl_->read_failed), kCloseGrace)) {
      impl_->context.TryCancel();
    }
  }
  impl_->RemoveHold();
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->mu.Await(absl::Condition(&impl_->done));
  }
  if (impl_->heartbeats.joinable()) impl_->heartbeats.join();
}

absl::StatusOr<AttachOffer> AttachClient::WaitOffer(absl::Duration timeout) {
  absl::MutexLock lock(&impl_->mu);
  const auto came = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(impl_->mu) {
    return impl_->offer.has_value();
  };
  if (!impl_->mu.AwaitWithTimeout(absl::Condition(&came), timeout)) {
    return absl::DeadlineExceededError("the verifier does not answer the hello");
  }
  return *impl_->offer;
}

void AttachClient::SendProof(uint64_t epoch, uint64_t answer, double lease_seconds) {
  v1::DrafterMessage message;
  message.mutable_proof()->set_epoch(epoch);
  message.mutable_proof()->set_answer(answer);
  {
    absl::MutexLock lock(&impl_->mu);
    impl_->heard = absl::Now();
    impl_->Send(std::move(message));
  }
  impl_->heartbeats = std::thread([impl = impl_.get(), epoch, lease_seconds] {
    impl->KeepAlive(epoch, absl::Seconds(lease_seconds));
  });
}

bool AttachClient::ready() const { return impl_->ready.load(); }

bool AttachClient::device_mode() const { return impl_->device_mode.load(); }

bool AttachClient::over() const { return impl_->over.load(); }

absl::Status AttachClient::status() const {
  absl::MutexLock lock(&impl_->mu);
  return impl_->status;
}

void AttachClient::SendClosed(uint64_t epoch) {
  v1::DrafterMessage message;
  message.mutable_closed()->set_epoch(epoch);
  absl::MutexLock lock(&impl_->mu);
  impl_->Send(std::move(message));
}

}  // namespace tandem
