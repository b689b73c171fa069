#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace tandem {

// Measured cost of passes, for what cannot be met to be refused at the door.
class StepCost final {
 public:
  void Observe(int rows, absl::Duration took) {
    step_ = Blend(step_, took);
    if (rows >= kManyRows) row_ = Blend(row_, took / rows);
  }

  // Time for `rows` prompt rows and one step; zero before anything was measured.
  absl::Duration Estimate(int64_t rows) const { return step_ + row_ * rows; }

 private:
  // Passes that are long enough for the cost of a row to show.
  static constexpr int kManyRows = 32;
  static absl::Duration Blend(absl::Duration mean, absl::Duration sample) {
    return mean == absl::ZeroDuration() ? sample : mean + (sample - mean) / 8;
  }
  absl::Duration step_;
  absl::Duration row_;
};

}  // namespace tandem
