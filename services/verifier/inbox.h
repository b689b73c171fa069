#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace tandem {

// The only way into the engine: work that its thread runs between two steps. Thread-safe.
class Inbox final {
 public:
  using Command = std::function<void()>;

  void Push(Command command) {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(command));
    filled_.notify_one();
  }

  // Everything pushed so far, in order; waits up to `timeout` for the first.
  std::vector<Command> Take(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, absl::ToChronoMicroseconds(timeout),
                     [this] { return !commands_.empty(); });
    return std::exchange(commands_, {});
  }

  bool empty() const {
    const std::lock_guard lock(mutex_);
    return commands_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Command> commands_;
};

}  // namespace tandem
