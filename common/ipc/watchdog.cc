#include "common/ipc/watchdog.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/time/time.h"

namespace tandem::ipc {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);
// Between releases of waits that follow each other.
constexpr auto kAgain = std::chrono::microseconds(200);

}  // namespace

Watchdog::Watchdog(Backend* backend) : backend_(backend), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    const absl::MutexLock lock(&mu_);
    end_ = true;
  }
  thread_.join();
}

void Watchdog::Arm(Clock::time_point deadline, std::function<bool()> stopped) {
  const absl::MutexLock lock(&mu_);
  armed_ = true;
  released_ = false;
  deadline_ = deadline;
  stopped_ = std::move(stopped);
}

bool Watchdog::released() const {
  const absl::MutexLock lock(&mu_);
  return released_;
}

bool Watchdog::Disarm() {
  const absl::MutexLock lock(&mu_);
  armed_ = false;
  return released_;
}

void Watchdog::Run() {
  const absl::MutexLock lock(&mu_);
  const auto awake = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return armed_ || end_; };
  const auto asleep = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !armed_ || end_; };
  for (;;) {
    mu_.Await(absl::Condition(&awake));
    if (end_) return;
    const Clock::time_point now = Clock::now();
    const bool due = now >= deadline_ || stopped_();
    // Under the lock: a wait of the next Arm must not be taken for one of this.
    if (due) released_ |= backend_->ReleaseWait();
    const auto pause =
        due ? Clock::duration(kAgain) : std::min<Clock::duration>(kLook, deadline_ - now);
    mu_.AwaitWithTimeout(absl::Condition(&asleep), absl::FromChrono(pause));
  }
}

}  // namespace tandem::ipc
