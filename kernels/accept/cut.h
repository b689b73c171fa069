#pragma once

#include <bit>
#include <cstdint>

#include "kernels/accept/accept.h"
#include "kernels/accept/rank_key.h"
#include "kernels/accept/weight.h"

namespace tandem {

// The ids that top_k, top_p and min_p keep, among values t whose largest is 0: those that rank no
// lower than `last` and weigh at least `floor`.
struct Cut {
  uint64_t last = 0;
  float floor = 0.0f;
};

constexpr bool Keeps(const Cut& cut, float t, uint32_t id) {
  return RankKey(t, id) >= cut.last && (cut.floor <= 0.0f || Exp(t) >= cut.floor);
}

// The temperature of t; what is left of it follows the cuts.
constexpr float CutTemperature(const Sampling& s) {
  return s.order == SamplingOrder::kTemperatureFirst ? s.temperature : 1.0f;
}

// Whether top_k cuts n values.
constexpr bool HasTopK(const Sampling& s, int n) { return s.top_k > 0 && s.top_k < n; }

// Whether the cuts depend on the ranking of n values.
constexpr bool HasRankCuts(const Sampling& s, int n) { return HasTopK(s, n) || s.top_p < 1.0f; }

// No value of at least this weight ranks lower: t >= log(weight) >= exponent * ln 2.
constexpr uint64_t LowestRank(float weight) {
  const int exponent = static_cast<int>(std::bit_cast<uint32_t>(weight) >> 23) - 127;
  return RankKey(static_cast<float>(exponent) * 0.6932f - 0.01f, 0xFFFFFFFFu);
}

// `last_of_k` is the key of rank top_k, `last_of_p` that at which the sum of the largest weights
// reaches top_p; 0 where there is no such cut.
constexpr Cut MakeCut(const Sampling& s, uint64_t last_of_k, uint64_t last_of_p) {
  Cut cut{.last = last_of_k > last_of_p ? last_of_k : last_of_p, .floor = s.min_p};
  if (s.order == SamplingOrder::kNucleusFirst) {
    cut.last = last_of_k;
    if (last_of_p != 0 && last_of_p >= last_of_k) {
      const float weight = Exp(RankValue(last_of_p));
      cut.floor = weight > cut.floor ? weight : cut.floor;
    }
  }
  if (cut.floor > 0.0f) {
    const uint64_t lowest = LowestRank(cut.floor);
    cut.last = cut.last > lowest ? cut.last : lowest;
  }
  return cut;
}

}  // namespace tandem
