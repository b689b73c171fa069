#include "services/router/periodic.h"

#include <utility>

namespace tandem {

Periodic::Periodic(absl::Duration interval, std::function<void()> call)
    : thread_([this, interval, call = std::move(call)] { Loop(interval, call); }) {}

Periodic::~Periodic() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Periodic::Loop(absl::Duration interval, const std::function<void()>& call) {
  for (;;) {
    {
      const absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), interval)) return;
    }
    call();
  }
}

}  // namespace tandem
