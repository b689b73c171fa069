#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/recent_ids.h"
#include "services/router/relay.h"

namespace tandem {

// The requests that run at this router, by id, and the calls that are not over. Thread-safe.
class LiveRequests final {
 public:
  // Ids of finished requests that Cancel still knows.
  static constexpr size_t kRemembered = 10'000;

  // ALREADY_EXISTS while the id is live; UNAVAILABLE once draining. Otherwise the call counts until
  // CallOver.
  absl::Status Add(const std::string& id, const std::shared_ptr<Relay>& relay);
  // The request has its result; the id is free again.
  void Finish(const std::string& id);
  void CallOver();

  // OK also for a finished request; NOT_FOUND for an unknown one.
  absl::Status Cancel(const std::string& id);

  // Refuses new calls and has `drained` called, once, when none is left.
  void Drain(std::function<void()> drained);

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<Relay>> live_ ABSL_GUARDED_BY(mutex_);
  RecentIds finished_ ABSL_GUARDED_BY(mutex_){kRemembered};
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> drained_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem
