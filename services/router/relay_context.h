#pragma once

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/router/worker_pool.h"

namespace tandem {

struct RelayOptions {
  absl::Duration resume_timeout = absl::Seconds(60);  // for a stream that lost its verifier
  absl::Duration start_wait = absl::Seconds(5);       // for a first verifier
  absl::Duration slow_reader_timeout = absl::Seconds(10);
  int max_pending_tokens = 256;  // per client; beyond it nothing is read from the verifier
};

// Counts the relays that exist, so that a router can end after the last one.
class RelayCount final {
 public:
  void Add(int change) {
    const absl::MutexLock lock(&mutex_);
    count_ += change;
  }
  void AwaitNone() const {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](const int* count) { return *count == 0; }, &count_));
  }

 private:
  mutable absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What all relays of a router share; outlives them.
struct RelayContext {
  WorkerPool* pool = nullptr;
  // There once a model is.
  std::function<RouterMetrics*()> metrics = {};
  MetricsPage* page = nullptr;
  RelayOptions options = {};
  std::string router_id = {};  // of this start of the router
  // The request has its result; before the client hears of it.
  std::function<void(const std::string& request_id)> finished = {};
  RelayCount* count = nullptr;
};

}  // namespace tandem
