#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace tandem {

// What passes cost at best of late, so that only what surely cannot be met is refused at the door.
class StepCost final {
 public:
  void Observe(int rows, absl::Duration took) {
    step_.Observe(took);
    if (rows >= kManyRows) row_.Observe(took / rows);
  }

  // Least time for `rows` prompt rows and one step; zero before anything was measured.
  absl::Duration Estimate(int64_t rows) const { return step_.least() + row_.least() * rows; }

 private:
  // Passes that are long enough for the cost of a row to show.
  static constexpr int kManyRows = 32;

  // The least of the last kWindow to 2 * kWindow samples: one slow pass refuses nobody.
  class Least final {
   public:
    void Observe(absl::Duration sample) {
      current_ = std::min(current_, sample);
      if (++count_ < kWindow) return;
      last_ = current_;
      current_ = absl::InfiniteDuration();
      count_ = 0;
    }
    absl::Duration least() const {
      const absl::Duration least = std::min(last_, current_);
      return least == absl::InfiniteDuration() ? absl::ZeroDuration() : least;
    }

   private:
    static constexpr int kWindow = 64;
    absl::Duration last_ = absl::InfiniteDuration();
    absl::Duration current_ = absl::InfiniteDuration();
    int count_ = 0;
  };

  Least step_;
  Least row_;
};

}  // namespace tandem
