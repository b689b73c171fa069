#pragma once

#include <functional>
#include <list>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/stream.h"
#include "services/verifier/serving_gate.h"
#include "tandem/v1/worker.grpc.pb.h"

namespace tandem {

// tandem.v1.WorkerService over an engine. One thread of its own watches the load; nothing else
// blocks.
class WorkerService final : public v1::WorkerService::CallbackService {
 public:
  struct Options {
    absl::Duration drain_timeout = absl::Seconds(30);  // of a Drain without one
    // A load that changes is told within this time; an unchanged one every second.
    absl::Duration watch_interval = absl::Milliseconds(20);
  };
  // Called by the watching thread with every look at the load.
  using LoadObserver = std::function<void(const EngineLoad&)>;
  // Starts a drain; must not block.
  using BeginDrain = std::function<void(absl::Duration timeout)>;

  // Everything must outlive the service; the callbacks are called from any thread.
  WorkerService(Options options, const ServingGate* gate, BeginDrain begin_drain,
                LoadObserver observer, MetricsPage* metrics);
  ~WorkerService() override;

  // Ends every WatchLoad, now and later: the server is about to end. Any thread.
  void EndWatches();
  // EndWatches, and waits for the watching thread. Not from a callback.
  void StopWatching();

  grpc::ServerUnaryReactor* GetWorker(grpc::CallbackServerContext* context,
                                      const v1::GetWorkerRequest* request,
                                      v1::GetWorkerResponse* response) override;
  grpc::ServerWriteReactor<v1::VocabularyChunk>* GetVocabulary(
      grpc::CallbackServerContext* context, const v1::GetVocabularyRequest* request) override;
  grpc::ServerWriteReactor<v1::WorkerLoad>* WatchLoad(grpc::CallbackServerContext* context,
                                                      const v1::WatchLoadRequest* request) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;

 private:
  using Watch = StreamWriter<v1::WorkerLoad>;
  void WatchThread();
  std::vector<std::shared_ptr<Watch>> Watches() const ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const ServingGate* const gate_;
  const BeginDrain begin_drain_;
  const LoadObserver observer_;
  MetricsPage* const metrics_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::list<std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tandem
