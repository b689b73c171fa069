#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tandem {

// Drafts that a step at `position` is to keep so that `mean` of them are kept per step on average:
// the whole number below the mean or the one above, by a hash of the position.
inline int SimulatedAccepted(double mean, int64_t position) {
  // The finalizer of SplitMix64.
  uint64_t bits = static_cast<uint64_t>(position) + 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  const double uniform = std::ldexp(static_cast<double>((bits ^ (bits >> 31)) >> 11), -53);
  return static_cast<int>(std::floor(std::max(mean, 0.0) + uniform));
}

}  // namespace tandem
