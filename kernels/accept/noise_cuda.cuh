#pragma once

#include <array>
#include <cstdint>

#include "kernels/accept/cut.h"
#include "kernels/accept/gumbel.h"
#include "kernels/accept/penalty.h"
#include "kernels/accept/row_cuda.cuh"

namespace tandem {

// Word i of a Philox block, without an address.
__device__ inline uint32_t WordOf(const std::array<uint32_t, 4>& block, int i) {
  const uint32_t low = i == 0 ? block[0] : block[1];
  const uint32_t high = i == 2 ? block[2] : block[3];
  return i < 2 ? low : high;
}

// A thread's search for the largest t / T + noise among the ids that the cut keeps.
struct NoisySearch {
  uint64_t seed = 0;
  int64_t position = 0;
  Cut cut;
  float temperature = 1.0f;  // what is left of it after the cuts
  float score = 0.0f;        // nothing below can be the row's choice
  uint64_t best = 0;         // rank key of score and id, 0 = none yet

  // Ids 4 * group .. + 3. Noise is only computed where it could change the result.
  __device__ void Look(float4 t, uint32_t group) {
    float values[4] = {t.x, t.y, t.z, t.w};
    float largest = kExcluded;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const bool kept = values[j] > kExcluded && Keeps(cut, values[j], 4 * group + j);
      values[j] = kept ? values[j] / temperature : kExcluded;
      largest = fmaxf(largest, values[j]);
    }
    if (largest + kGumbelMax < score) return;
    const std::array<uint32_t, 4> bits = NoiseBlock(seed, position, group);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (values[j] + GumbelBound(bits[j]) < score) continue;
      const float candidate = values[j] + Gumbel(bits[j]);
      score = fmaxf(score, candidate);
      const uint64_t key = RankKey(candidate, 4 * group + j);
      best = key > best ? key : best;
    }
  }
};

// A search that begins with the score of the row's largest value, whose rank key is `largest`: its
// t is 0. For a whole block; `start` is one shared float.
__device__ inline NoisySearch StartSearch(const Row& row, uint64_t largest, const Cut& cut,
                                          float* start) {
  const Sampling& s = row.sampling();
  const int64_t position = row.lane->position + row.depth;
  if (threadIdx.x == 0) {
    const uint32_t id = static_cast<uint32_t>(RankId(largest));
    *start = Gumbel(WordOf(NoiseBlock(s.seed, position, id / 4), static_cast<int>(id % 4)));
  }
  __syncthreads();
  return {.seed = s.seed,
          .position = position,
          .cut = cut,
          .temperature = s.order == SamplingOrder::kTemperatureFirst ? 1.0f : s.temperature,
          .score = *start};
}

}  // namespace tandem
