#pragma once

#include "kernels/linear/sparse_cuda.cuh"

// One block of neurons of a channel tile on a team of lanes.

namespace tandem {

template <WeightFormat kFormat>
struct FewLanes {
  static constexpr int kChannels = kFormat == WeightFormat::kBf16 ? 8 : 16;
  static constexpr int kWords = kFormat == WeightFormat::kInt6 ? 3 : 4;
  static constexpr int kLanes = kChannelTile / kChannels;
  static constexpr int kTeams = kSparseThreads / kLanes;
  static constexpr int kWarpTeams = kWarp / kLanes;
};

template <WeightFormat kFormat>
__device__ inline void LoadFewWeights(uint32_t (&words)[FewLanes<kFormat>::kWords],
                                      const uint8_t* tile, int lane) {
  if constexpr (kFormat == WeightFormat::kInt6) {
    const uint2 high = __ldg(reinterpret_cast<const uint2*>(tile) + lane);
    words[0] = high.x;
    words[1] = high.y;
    words[2] = __ldg(reinterpret_cast<const uint32_t*>(tile + 64) + lane);
  } else {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(tile + lane * 16));
    words[0] = v.x;
    words[1] = v.y;
    words[2] = v.z;
    words[3] = v.w;
  }
}

template <WeightFormat kFormat, int kRows>
__device__ inline void AddNeuron(float (&sum)[kRows][FewLanes<kFormat>::kChannels],
                                 const uint32_t* words, const float* inputs) {
  float x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) x[r] = inputs[r];
#pragma unroll
  for (int p = 0; p < FewLanes<kFormat>::kChannels / 2; ++p) {
    float2 w;
    if constexpr (kFormat == WeightFormat::kInt6) {
      w = Int6WeightPair(words[p / 4], words[2], p / 4, p % 4);
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
__device__ inline void SumLive(float (&sum)[kRows][FewLanes<kFormat>::kChannels], uint64_t live,
                               const uint8_t* weight, size_t row_bytes,
                               const float (&inputs)[kNeuronBlock][kRows]) {
  using Lanes = FewLanes<kFormat>;
  constexpr int kBatch = 8;
  const int lane = static_cast<int>(threadIdx.x) % Lanes::kLanes;
  while (live != 0) {
    uint32_t words[kBatch][Lanes::kWords];
    int neuron[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      neuron[b] = __ffsll(static_cast<long long>(live)) - 1;  // -1: no more
      live &= live - 1;
      if (neuron[b] >= 0) LoadFewWeights<kFormat>(words[b], weight + neuron[b] * row_bytes, lane);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      if (neuron[b] >= 0) AddNeuron<kFormat, kRows>(sum, words[b], inputs[neuron[b]]);
    }
  }
}

}  // namespace tandem
