#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tandem {

// The only way into the engine: work that its thread runs between two steps. Thread-safe.
class Inbox final {
 public:
  using Command = std::function<void()>;

  void Push(Command command) {
    absl::MutexLock lock(&mutex_);
    commands_.push_back(std::move(command));
  }

  // Everything pushed so far, in order; waits up to `timeout` for the first.
  std::vector<Command> Take(absl::Duration timeout) {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(this, &Inbox::HasCommand), timeout);
    return std::exchange(commands_, {});
  }

  bool empty() const {
    absl::MutexLock lock(&mutex_);
    return commands_.empty();
  }

 private:
  bool HasCommand() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !commands_.empty(); }

  mutable absl::Mutex mutex_;
  std::vector<Command> commands_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tandem
