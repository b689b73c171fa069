#include "services/cli/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::cli {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void AddList(std::vector<uint64_t>& sums, absl::Span<const uint32_t> values) {
  if (sums.size() < values.size()) sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

}  // namespace

double Percentile(absl::Span<const double> values, double p) {
  if (values.empty()) return kNan;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double rank = p / 100 * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(rank);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void DraftCounts::Add(const v1::Usage& usage) {
  generated += usage.generated_tokens();
  rounds += usage.rounds();
  drafted += usage.drafted_tokens();
  accepted += usage.accepted_tokens();
  AddList(drafted_by_depth,
          {usage.drafted_by_depth().data(), static_cast<size_t>(usage.drafted_by_depth_size())});
  AddList(accepted_by_depth,
          {usage.accepted_by_depth().data(), static_cast<size_t>(usage.accepted_by_depth_size())});
}

double DraftCounts::TokensPerStep() const {
  return rounds == 0 ? kNan : static_cast<double>(generated) / static_cast<double>(rounds);
}

std::vector<double> DraftCounts::AcceptanceByDepth() const {
  std::vector<double> shares;
  for (size_t i = 0; i < drafted_by_depth.size(); ++i) {
    const uint64_t kept = i < accepted_by_depth.size() ? accepted_by_depth[i] : 0;
    shares.push_back(drafted_by_depth[i] == 0
                         ? kNan
                         : static_cast<double>(kept) / static_cast<double>(drafted_by_depth[i]));
  }
  return shares;
}

}  // namespace tandem::cli
