#pragma once

#include "kernels/linear/sparse_lanes_cuda.cuh"

// Few rows: only the weights of neurons that are live in one of the rows are read. A team of lanes
// takes a block of neurons, 16 bytes of a tile's row per lane, with as many loads under way as a
// block usually has live neurons.

namespace tandem {

// Blocks of neurons whose sums stand in shared memory at a time.
inline constexpr int kRoundBlocks = 32;

template <int kRows>
struct FewShared {
  float inputs[kSparseThreads / kWarp][4][kNeuronBlock][kRows];  // by warp and team
  float sums[kRoundBlocks][kRows][kChannelTile];
  float span[kRows * kChannelTile];
};

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
