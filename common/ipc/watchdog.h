#pragma once

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/ipc/word.h"
#include "kernels/backend.h"

namespace tandem::ipc {

// Bounds how long a backend's queue waits for a word of another process: a thread that releases the
// wait. Armed and disarmed by the one thread that uses the backend.
class Watchdog final {
 public:
  // `backend`, which has words, must outlive the watchdog.
  explicit Watchdog(Backend* backend);
  ~Watchdog();

  // Until Disarm, releases the last wait once `deadline` has passed or `stopped` turned true, which
  // is looked at every few milliseconds, on the watchdog's thread.
  void Arm(Clock::time_point deadline, std::function<bool()> stopped);
  // Whether a wait has been released since Arm.
  bool released() const;
  // Back to rest; whether a wait was released.
  bool Disarm();

 private:
  void Run();

  Backend* const backend_;
  mutable absl::Mutex mu_;
  bool armed_ ABSL_GUARDED_BY(mu_) = false;
  bool released_ ABSL_GUARDED_BY(mu_) = false;
  bool end_ ABSL_GUARDED_BY(mu_) = false;
  Clock::time_point deadline_ ABSL_GUARDED_BY(mu_);
  std::function<bool()> stopped_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tandem::ipc
