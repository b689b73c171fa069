#pragma once

#include "kernels/linear/sparse_cuda.cuh"

// Few rows: only the weights of neurons that are live in one of the rows are read. A team of lanes
// takes a block of neurons, 16 bytes of a tile's row per lane, with as many loads under way as a
// block usually has live neurons.

namespace tandem {

template <WeightFormat kFormat>
struct FewLanes {
  static constexpr int kChannels = kFormat == WeightFormat::kBf16 ? 8 : 16;
  static constexpr int kWords = kFormat == WeightFormat::kInt6 ? 3 : 4;
  static constexpr int kLanes = kChannelTile / kChannels;
  static constexpr int kTeams = kSparseThreads / kLanes;
  static constexpr int kWarpTeams = kWarp / kLanes;
};

// Blocks of neurons whose sums stand in shared memory at a time.
inline constexpr int kRoundBlocks = 32;

template <int kRows>
struct FewShared {
  float inputs[kSparseThreads / kWarp][4][kNeuronBlock][kRows];  // by warp and team
  float sums[kRoundBlocks][kRows][kChannelTile];
  float span[kRows * kChannelTile];
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

// The inputs of a warp's teams into shared memory; the result has the live neurons of this lane's
// own team. `first_block` is the first team's, `count` are there.
template <WeightFormat kFormat, int kRows>
__device__ inline uint64_t LoadInputs(const SparseJob& job, float (&inputs)[4][kNeuronBlock][kRows],
                                      int first_block, int count, int first_row) {
  using Lanes = FewLanes<kFormat>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float x[Lanes::kWarpTeams][2][kRows];
#pragma unroll
  for (int t = 0; t < Lanes::kWarpTeams; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int neuron = (first_block + t) * kNeuronBlock + half * kWarp + lane;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const bool present = t < count && neuron < job.neurons && first_row + r < job.rows;
        x[t][half][r] = present ? __ldg(job.x + (first_row + r) * job.x_stride + neuron) : 0.0f;
      }
    }
  }
  uint64_t live = 0;
#pragma unroll
  for (int t = 0; t < Lanes::kWarpTeams; ++t) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      bool any = false;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        inputs[t][half * kWarp + lane][r] = x[t][half][r];
        any = any || !(x[t][half][r] == 0.0f);
      }
      const uint64_t bits = __ballot_sync(kAllLanes, any);
      if (t == lane / Lanes::kLanes) live |= bits << (half * kWarp);
    }
  }
  __syncwarp();
  return live;
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

// blockIdx: span, channel tile, group of kRows rows; clusters of 8 spans.
template <WeightFormat kFormat, int kRows>
__global__ void __launch_bounds__(kSparseThreads, 2)
    SparseFewKernel(const __grid_constant__ SparseJob job) {
  using Lanes = FewLanes<kFormat>;
  extern __shared__ __align__(16) uint8_t memory[];
  FewShared<kRows>& shared = *reinterpret_cast<FewShared<kRows>*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int team = lane / Lanes::kLanes, channel = lane % Lanes::kLanes * Lanes::kChannels;
  const int tile = static_cast<int>(blockIdx.y), first_row = static_cast<int>(blockIdx.z) * kRows;
  const int end = SpanBlock(job.neurons, static_cast<int>(blockIdx.x) + 1);
  const size_t row_bytes = static_cast<size_t>(gridDim.y) * SparseTile<kFormat>::kBytes;
  const uint8_t* weight = job.weight + tile * SparseTile<kFormat>::kBytes;
  for (int i = threadIdx.x; i < kRows * kChannelTile; i += kSparseThreads) shared.span[i] = 0.0f;
  int round = SpanBlock(job.neurons, static_cast<int>(blockIdx.x));
  for (; round < end; round += kRoundBlocks) {
    const int count = min(end - round, kRoundBlocks);
    for (int i = warp * Lanes::kWarpTeams; i < count; i += Lanes::kTeams) {
      const uint64_t live =
          LoadInputs<kFormat, kRows>(job, shared.inputs[warp], round + i, count - i, first_row);
      float sum[kRows][Lanes::kChannels] = {};
      const size_t neuron = static_cast<size_t>(round + i + team) * kNeuronBlock;
      SumLive<kFormat, kRows>(sum, live, weight + neuron * row_bytes, row_bytes,
                              shared.inputs[warp][team]);
      if (i + team < count) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
#pragma unroll
          for (int c = 0; c < Lanes::kChannels; ++c)
            shared.sums[i + team][r][channel + c] = sum[r][c];
        }
      }
      // The inputs are overwritten next.
      __syncwarp();
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kChannelTile; i += kSparseThreads) {
      const int c = i % kChannelTile;
      float span = shared.span[i];
#pragma unroll 8
      for (int b = 0; b < count; ++b) {
        span = AddBlock<kFormat>(job, span, shared.sums[b][i / kChannelTile][c], round + b,
                                 tile * kChannelTile + c);
      }
      shared.span[i] = span;
    }
    // The sums are overwritten next.
    __syncthreads();
  }
  FinishSpans<kFormat>(job, shared.span, first_row, min(job.rows - first_row, kRows));
}

}  // namespace tandem
