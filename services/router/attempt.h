#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/rpc/metadata.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "services/router/worker.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem {

// Hears of one attempt, in order and from one gRPC thread at a time.
class AttemptOwner {
 public:
  virtual ~AttemptOwner() = default;
  virtual void OnResponse(v1::GenerateResponse& response) = 0;
  // The client is behind: no further message is read until Attempt::Resume.
  virtual bool WantsPause() = 0;
  // A pause is about to begin, unless the client catches up first.
  virtual void OnPaused() = 0;
  // The last call.
  virtual void OnEnd(const absl::Status& status) = 0;
};

// One Generate call to one verifier.
class Attempt final : public grpc::ClientReadReactor<v1::GenerateResponse>,
                      public std::enable_shared_from_this<Attempt> {
 public:
  // `deadline` may be infinite.
  static std::shared_ptr<Attempt> Create(std::shared_ptr<Worker> worker,
                                         v1::GenerateRequest request,
                                         const RequestMetadata& metadata, absl::Time deadline,
                                         std::shared_ptr<AttemptOwner> owner);
  // Once. Owner and attempt live until OnEnd at least.
  void Start();

  // Any thread, any number of times. OnEnd still comes.
  void Cancel();
  // Reads on after a pause; nothing happens without one.
  void Resume();
  bool paused() const;

  const std::shared_ptr<Worker>& worker() const { return worker_; }
  const std::string& request_id() const { return request_.request_id(); }

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  Attempt(std::shared_ptr<Worker> worker, v1::GenerateRequest request,
          std::shared_ptr<AttemptOwner> owner);

  const std::shared_ptr<Worker> worker_;
  const v1::GenerateRequest request_;
  std::shared_ptr<AttemptOwner> owner_;
  std::shared_ptr<Attempt> self_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  mutable absl::Mutex mutex_;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tandem
