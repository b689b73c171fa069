#include "services/router/attempt.h"

#include <utility>

#include "common/rpc/status.h"

namespace tandem {

std::shared_ptr<Attempt> Attempt::Create(std::shared_ptr<Worker> worker,
                                         v1::GenerateRequest request,
                                         const RequestMetadata& metadata, absl::Time deadline,
                                         std::shared_ptr<AttemptOwner> owner) {
  std::shared_ptr<Attempt> attempt(
      new Attempt(std::move(worker), std::move(request), std::move(owner)));
  Propagate(metadata, attempt->context_);
  attempt->context_.set_deadline(absl::ToChronoTime(deadline));
  return attempt;
}

Attempt::Attempt(std::shared_ptr<Worker> worker, v1::GenerateRequest request,
                 std::shared_ptr<AttemptOwner> owner)
    : worker_(std::move(worker)), request_(std::move(request)), owner_(std::move(owner)) {}

void Attempt::Start() {
  self_ = shared_from_this();
  worker_->CountSubmitted();
  worker_->generation().async()->Generate(&context_, &request_, this);
  StartRead(&response_);
  StartCall();
}

void Attempt::Cancel() {
  context_.TryCancel();
  Resume();
}

void Attempt::Resume() {
  {
    const absl::MutexLock lock(&mutex_);
    if (!paused_) return;
    paused_ = false;
  }
  // Outside of the lock: gRPC may deliver the next message in here.
  StartRead(&response_);
  RemoveHold();
}

bool Attempt::paused() const {
  const absl::MutexLock lock(&mutex_);
  return paused_;
}

void Attempt::OnReadDone(bool ok) {
  if (!ok) return;
  owner_->OnResponse(response_);
  if (!owner_->WantsPause()) {
    StartRead(&response_);
    return;
  }
  owner_->OnPaused();
  {
    const absl::MutexLock lock(&mutex_);
    AddHold();
    paused_ = true;
  }
  // The client may have caught up before the pause was noted.
  if (!owner_->WantsPause()) Resume();
}

void Attempt::OnDone(const grpc::Status& status) {
  const auto self = std::exchange(self_, nullptr);
  const auto owner = std::exchange(owner_, nullptr);
  owner->OnEnd(FromGrpc(status));
}

}  // namespace tandem
