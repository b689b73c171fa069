#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::cli {

// The p-th percentile (0 to 100) by linear interpolation between the closest ranks, rank 0 being
// the smallest value and rank n - 1 the largest; NaN without values.
double Percentile(absl::Span<const double> values, double p);

// Sums of Usage over replies, and what follows from them. Index i of a depth list: depth i + 1.
struct DraftCounts {
  uint64_t generated = 0;
  uint64_t rounds = 0;
  uint64_t drafted = 0;
  uint64_t accepted = 0;
  std::vector<uint64_t> drafted_by_depth = {};
  std::vector<uint64_t> accepted_by_depth = {};

  void Add(const v1::Usage& usage);
  // Tokens that a step of one reply gave on average; NaN without steps.
  double TokensPerStep() const;
  // Accepted of drafted at each depth that was drafted; the value at a depth never drafted is NaN.
  std::vector<double> AcceptanceByDepth() const;
};

}  // namespace tandem::cli
