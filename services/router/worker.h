#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "services/router/placement.h"
#include "tandem/v1/generation.grpc.pb.h"
#include "tandem/v1/session.grpc.pb.h"
#include "tandem/v1/worker.grpc.pb.h"

namespace tandem {

class Worker;

// Decides whether a verifier that answers may be used. Called from the worker's own thread.
class WorkerAdmission {
 public:
  virtual ~WorkerAdmission() = default;
  // May fetch the vocabulary through `worker`. FAILED_PRECONDITION for another model.
  virtual absl::Status Admit(const v1::GetWorkerResponse& info, Worker& worker) = 0;
  // The worker became usable or stopped being so.
  virtual void StandingChanged() = 0;
};

// One address of a verifier: its connection, and a thread that keeps a WatchLoad stream on it. The
// stream is the sign of life: while it lives and the verifier accepts work, the worker is usable.
// Thread-safe.
class Worker final {
 public:
  struct Status {
    WorkerStanding standing = {};
    std::string instance_id = {};  // of the process that answers now; empty while none does
    v1::WorkerLoad load = {};
    absl::Status error = {};  // why it is not usable
  };

  struct Options {
    int max_message_bytes = 4 << 20;
    std::string router_id = {};  // of this start of the router: what its sessions there belong to
  };
  // `admission` outlives the worker.
  Worker(const std::string& address, const Options& options, WorkerAdmission* admission);
  ~Worker();
  // Ends the thread; `admission` is not called afterwards, and the worker never is usable again.
  void Stop();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& address() const { return address_; }
  Status status() const;
  // True while the process with this instance id answers, even if it takes no new work.
  bool IsAlive(const std::string& instance_id) const;

  v1::GenerationService::Stub& generation() { return *generation_; }
  v1::SessionService::Stub& sessions() { return *sessions_; }

  // A request is on its way to it.
  void CountSubmitted();
  // A session is about to be opened on it: takes room until the verifier tells its load.
  void CountSession();
  // A request failed as if the verifier were gone: not usable for `pause`.
  void Suspect(const absl::Status& error, absl::Duration pause);
  // Breaks a connection whose last load message is too old.
  void CheckSilence(absl::Time now);

  // The vocabulary file, whole. OUT_OF_RANGE beyond kMaxVocabularyBytes. Blocks.
  absl::StatusOr<std::string> FetchVocabulary();

 private:
  void Loop();
  // Connects, is admitted and reads loads until the stream breaks; says why it ended.
  absl::Status Watch();
  absl::StatusOr<v1::GetWorkerResponse> GetInfo();
  void TakeLoad(const v1::WorkerLoad& load, const std::string& instance_id);
  // The call that Stop and CheckSilence may cancel. False when the worker is being destroyed: there
  // is to be no call then.
  bool SetContext(grpc::ClientContext* context);
  bool Pause(absl::Duration duration);

  const std::string address_;
  const std::string router_id_;
  WorkerAdmission* const admission_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::WorkerService::Stub> worker_;

  mutable absl::Mutex mutex_;
  Status told_ ABSL_GUARDED_BY(mutex_);
  bool up_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time suspect_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time last_load_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the call that blocks
  std::thread thread_;
};

}  // namespace tandem
