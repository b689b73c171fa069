#pragma once

#include <array>
#include <cstdint>

#include "common/ipc/messages.h"

namespace tandem {

// How long to wait for a drafter: 3 x what the unanswered rounds are expected to take + a floor.
// What is expected follows running means of on-time rounds: per round, and per row for rounds that
// feed more rows than a decoding step has.
class DraftDeadline final {
 public:
  struct Options {
    double floor_seconds = 0.002;
    // Instead, for the first rounds of an attachment, and for big rounds until one was measured.
    double cold_seconds = 1.0;
    int cold_rounds = 4;
  };

  explicit DraftDeadline(const Options& options) : options_(options) {}

  // A new attachment: everything is unknown again.
  void Reset();
  // Round `step` went out; `rows` certain positions in `lanes` lanes.
  void Published(uint64_t step, int rows, int lanes);
  // Seconds from now, where rounds drafted + 1 .. step are unanswered.
  double Seconds(uint64_t drafted, uint64_t step) const;
  // Round `step` took the drafter so long, nothing else being before it.
  void Measured(uint64_t step, double seconds);

 private:
  struct Size {
    int rows = 0;
    bool big = false;
  };
  double Expected(const Size& size) const;
  const Size& size(uint64_t step) const { return sizes_[step % ipc::kRing]; }

  Options options_;
  std::array<Size, ipc::kRing> sizes_ = {};
  int measured_ = 0;
  double round_mean_ = 0;
  double row_mean_ = 0;  // 0: not measured
};

}  // namespace tandem
