#include "services/verifier/draft_deadline.h"

#include <algorithm>

#include "kernels/lanes.h"

namespace tandem {
namespace {

constexpr double kSafety = 3;
constexpr double kNewWeight = 0.125;  // of a new sample in a running mean

double Mixed(double mean, double sample) {
  return mean == 0 ? sample : mean + kNewWeight * (sample - mean);
}

}  // namespace

void DraftDeadline::Reset() {
  measured_ = 0;
  round_mean_ = 0;
  row_mean_ = 0;
}

void DraftDeadline::Published(uint64_t step, int rows, int lanes) {
  sizes_[step % ipc::kRing] = {.rows = rows, .big = rows > lanes * (kMaxDrafts + 1)};
}

double DraftDeadline::Expected(const Size& size) const {
  if (!size.big) return round_mean_;
  // Until one was measured a big round gets the cold allowance, which the caller multiplies.
  const double rows =
      row_mean_ == 0 ? options_.cold_seconds / kSafety : row_mean_ * static_cast<double>(size.rows);
  return round_mean_ + rows;
}

double DraftDeadline::Seconds(uint64_t drafted, uint64_t step) const {
  const uint64_t oldest = step >= ipc::kRing ? step - ipc::kRing : 0;
  double expected = 0;
  for (uint64_t s = std::max(drafted, oldest) + 1; s <= step; ++s) expected += Expected(size(s));
  const double seconds = kSafety * expected + options_.floor_seconds;
  return measured_ < options_.cold_rounds ? std::max(seconds, options_.cold_seconds) : seconds;
}

void DraftDeadline::Measured(uint64_t step, double seconds) {
  const Size& measured = size(step);
  ++measured_;
  if (measured.big) {
    row_mean_ = Mixed(row_mean_, seconds / measured.rows);
  } else {
    round_mean_ = Mixed(round_mean_, seconds);
  }
}

}  // namespace tandem
