#pragma once

#include "kernels/linear/sparse_lanes_cuda.cuh"

// Few rows: only the weights of neurons that are live in one of the rows are read. A team of lanes
// takes a block of neurons, 16 bytes of a tile's row per lane, with as many loads under way as a
// block usually has live neurons.

namespace tandem {

template <WeightFormat kFormat, int kRows>
struct FewShared {
  using Lanes = FewLanes<kFormat, kRows>;
  // By warp and team.
  alignas(16) float inputs[kSparseThreads / kWarp][Lanes::kWarpTeams][kNeuronBlock][kRows];
  // Of the blocks of neurons that the teams work on, in quads of channels: of every lane of a team
  // the first, then of every lane the second ...
  alignas(16) float sums[Lanes::kTeams][kRows][kChannelTile];
  float span[kRows * kChannelTile];
};

// The inputs of a warp's teams into shared memory; the result has the live neurons of this lane's
// own team. `first_block` is the first team's, `count` are there.
template <WeightFormat kFormat, int kRows>
__device__ inline uint64_t LoadInputs(
    const SparseJob& job,
    float (&inputs)[FewLanes<kFormat, kRows>::kWarpTeams][kNeuronBlock][kRows], int first_block,
    int count, int first_row) {
  using Lanes = FewLanes<kFormat, kRows>;
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
        x[t][half][r] = present ? job.x[(first_row + r) * job.x_stride + neuron] : 0.0f;
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
__global__ void __launch_bounds__(kSparseThreads, 3)
    SparseFewKernel(const __grid_constant__ SparseJob job) {
  using Lanes = FewLanes<kFormat, kRows>;
  extern __shared__ __align__(16) uint8_t memory[];
  FewShared<kFormat, kRows>& shared = *reinterpret_cast<FewShared<kFormat, kRows>*>(memory);
  BeginOverlapped();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int team = lane / Lanes::kLanes, member = lane % Lanes::kLanes;
  const int tile = static_cast<int>(blockIdx.y), first_row = static_cast<int>(blockIdx.z) * kRows;
  const int end = SpanBlock(job.neurons, static_cast<int>(blockIdx.x) + 1);
  const size_t row_bytes = static_cast<size_t>(gridDim.y) * SparseTile<kFormat>::kBytes;
  const uint8_t* weight = job.weight + tile * SparseTile<kFormat>::kBytes;
  for (int i = threadIdx.x; i < kRows * kChannelTile; i += kSparseThreads) shared.span[i] = 0.0f;
  int round = SpanBlock(job.neurons, static_cast<int>(blockIdx.x));
  for (; round < end; round += Lanes::kTeams) {
    const int count = min(end - round, Lanes::kTeams), first = warp * Lanes::kWarpTeams;
    const uint64_t live = LoadInputs<kFormat, kRows>(job, shared.inputs[warp], round + first,
                                                     count - first, first_row);
    float sum[kRows][Lanes::kChannels] = {};
    const size_t neuron = static_cast<size_t>(round + first + team) * kNeuronBlock;
    SumLive<kFormat, kRows>(sum, live, weight + neuron * row_bytes, row_bytes,
                            shared.inputs[warp][team]);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int q = 0; q < Lanes::kChannels / 4; ++q) {
        reinterpret_cast<float4*>(shared.sums[first + team][r])[q * Lanes::kLanes + member] =
            make_float4(sum[r][4 * q], sum[r][4 * q + 1], sum[r][4 * q + 2], sum[r][4 * q + 3]);
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < kRows * kChannelTile; i += kSparseThreads) {
      const int at = i % kChannelTile, row = i / kChannelTile;
      const int quad = at / 4 / Lanes::kLanes, lane_of = at / 4 % Lanes::kLanes;
      const int c = lane_of * Lanes::kChannels + 4 * quad + at % 4;
      float span = shared.span[row * kChannelTile + c];
#pragma unroll 8
      for (int b = 0; b < count; ++b) {
        span = AddBlock<kFormat>(job, span, shared.sums[b][row][at], round + b,
                                 tile * kChannelTile + c);
      }
      shared.span[row * kChannelTile + c] = span;
    }
    // Inputs and sums are overwritten next.
    __syncthreads();
  }
  FinishSpans<kFormat>(job, shared.span, first_row, min(job.rows - first_row, kRows));
}

}  // namespace tandem
