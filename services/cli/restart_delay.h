#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace tandem::cli {

// How long to wait before a dead child is started again: 0.2 s, doubling to 10 s, and from 0.2 s
// again after a life of 30 s.
class RestartDelay final {
 public:
  static constexpr absl::Duration kFirst = absl::Milliseconds(200);
  static constexpr absl::Duration kLongest = absl::Seconds(10);
  static constexpr absl::Duration kHealthy = absl::Seconds(30);

  // The child died after it had lived for `life`.
  absl::Duration Next(absl::Duration life) {
    if (life >= kHealthy) next_ = kFirst;
    const absl::Duration delay = next_;
    next_ = std::min(next_ * 2, kLongest);
    return delay;
  }

 private:
  absl::Duration next_ = kFirst;
};

}  // namespace tandem::cli
