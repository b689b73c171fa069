#pragma once

#include "kernels/linear/sparse_cuda.cuh"

// One block of neurons of a channel tile on a team of lanes.

namespace tandem {

// A lane has 16 channels, or 8 where the sums of more would not leave registers for three blocks on
// a multiprocessor. With two, the clusters of 4096 channels do not all find a place at once.
template <WeightFormat kFormat, int kRows>
struct FewLanes {
  static constexpr int kChannels = kFormat == WeightFormat::kBf16 || kRows > 1 ? 8 : 16;
  static constexpr int kWords = kFormat == WeightFormat::kInt6   ? kChannels / 8 + 1
                                : kFormat == WeightFormat::kBf16 ? kChannels / 2
                                                                 : kChannels / 4;
  static constexpr int kLanes = kChannelTile / kChannels;
  static constexpr int kTeams = kSparseThreads / kLanes;
  static constexpr int kWarpTeams = kWarp / kLanes;
};

__device__ inline void LoadOnce(uint32_t (&words)[4], const uint8_t* at) {
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(at));
}
__device__ inline void LoadOnce(uint32_t (&words)[2], const uint8_t* at) {
  asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
               : "=r"(words[0]), "=r"(words[1])
               : "l"(at));
}

template <WeightFormat kFormat, int kRows>
__device__ inline void LoadFewWeights(uint32_t (&words)[FewLanes<kFormat, kRows>::kWords],
                                      const uint8_t* tile, int lane) {
  using Lanes = FewLanes<kFormat, kRows>;
  if constexpr (kFormat != WeightFormat::kInt6) {
    LoadOnce(words, tile + lane * Lanes::kWords * 4);
  } else {
    constexpr int kHighs = Lanes::kWords - 1;  // of 8 channels each; a word of low bits is of 16
    const uint32_t* const high = reinterpret_cast<const uint32_t*>(tile);
#pragma unroll
    for (int h = 0; h < kHighs; ++h) words[h] = __ldg(high + lane * kHighs + h);
    words[kHighs] = __ldg(reinterpret_cast<const uint32_t*>(tile + 64) + lane * kHighs / 2);
  }
}

template <WeightFormat kFormat, int kRows>
__device__ inline void AddNeuron(float (&sum)[kRows][FewLanes<kFormat, kRows>::kChannels],
                                 const uint32_t* words, const float* inputs, int lane) {
  using Lanes = FewLanes<kFormat, kRows>;
  float x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = inputs[r];
#pragma unroll
  for (int p = 0; p < Lanes::kChannels / 2; ++p) {
    float2 w;
    if constexpr (kFormat == WeightFormat::kInt6) {
      const int group = Lanes::kChannels == 8 ? lane % 2 : p / 4;
      w = Int6WeightPair(words[p / 4], words[Lanes::kWords - 1], group, p % 4);
    } else {
      w = WeightPair<kFormat>(words, p);
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      sum[r][2 * p] = fmaf(x[r], w.x, sum[r][2 * p]);
      sum[r][2 * p + 1] = fmaf(x[r], w.y, sum[r][2 * p + 1]);
    }
  }
}

// The sums of one block of neurons for the channels of this lane. weight: the block's first neuron
// in the channel tile; inputs [64][kRows].
template <WeightFormat kFormat, int kRows>
__device__ inline void SumLive(float (&sum)[kRows][FewLanes<kFormat, kRows>::kChannels],
                               uint64_t live, const uint8_t* weight, size_t row_bytes,
                               const float (&inputs)[kNeuronBlock][kRows]) {
  using Lanes = FewLanes<kFormat, kRows>;
  // Loads under way: as many as there are registers for.
  constexpr int kBatch = kFormat == WeightFormat::kBf16   ? (kRows == 4 ? 4 : 6)
                         : kFormat == WeightFormat::kInt6 ? 6
                                                          : 8;
  const int lane = static_cast<int>(threadIdx.x) % Lanes::kLanes;
  while (live != 0) {
    uint32_t words[kBatch][Lanes::kWords];
    int neuron[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      neuron[b] = __ffsll(static_cast<long long>(live)) - 1;  // -1: no more
      live &= live - 1;
      if (neuron[b] >= 0)
        LoadFewWeights<kFormat, kRows>(words[b], weight + neuron[b] * row_bytes, lane);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (neuron[b] >= 0) AddNeuron<kFormat, kRows>(sum, words[b], inputs[neuron[b]], lane);
    }
  }
}

}  // namespace tandem
