#pragma once

#include "kernels/linear/sparse_cuda.cuh"

// Many rows: all weights are read, into shared memory; a warp takes one row after the other and
// multiplies its live neurons only.

namespace tandem {

inline constexpr int kManyRows = 64;
inline constexpr int kManyWarps = kSparseThreads / kWarp;
inline constexpr int kWarpRows = kManyRows / kManyWarps;
inline constexpr int kLaneChannels = kChannelTile / kWarp;  // 4

template <WeightFormat kFormat>
struct ManyShared {
  uint8_t weights[2][kNeuronBlock * SparseTile<kFormat>::kBytes];
  float sums[kManyRows * kChannelTile];
};

// Starts the loads of a block of neurons of a channel tile.
template <WeightFormat kFormat>
__device__ inline void FillBlock(uint8_t* to, const SparseJob& job, int block) {
  constexpr int kBytes = SparseTile<kFormat>::kBytes, kParts = kBytes / 16;
  const size_t row_bytes = static_cast<size_t>(gridDim.y) * kBytes;
  const uint8_t* from = job.weight + static_cast<size_t>(block) * kNeuronBlock * row_bytes +
                        static_cast<size_t>(blockIdx.y) * kBytes;
  for (int i = threadIdx.x; i < kNeuronBlock * kParts; i += kSparseThreads)
    CopyAsync16(to + i * 16, from + i / kParts * row_bytes + i % kParts * 16);
}

// The weights of channels 4 lane ... 4 lane + 3 of a tile.
template <WeightFormat kFormat>
__device__ inline float4 LaneWeights(const uint8_t* tile, int lane) {
  const uint32_t* words = reinterpret_cast<const uint32_t*>(tile);
  float2 first, second;
  if constexpr (kFormat == WeightFormat::kInt6) {
    const uint32_t high = words[lane / 2], low = words[16 + lane / 4];
    // Pairs 0 and 1 or 2 and 3 of the word: shifted down to 0 and 1.
    const int group = lane / 2 % 2, odd = lane % 2;
    const uint32_t down = low >> (8 * group + 4 * odd);
    first = Int6WeightPair(high >> (8 * odd), down, 0, 0);
    second = Int6WeightPair(high >> (8 * odd), down, 0, 1);
  } else if constexpr (kFormat == WeightFormat::kBf16) {
    const uint2 two = reinterpret_cast<const uint2*>(tile)[lane];
    const uint32_t both[2] = {two.x, two.y};
    first = WeightPair<kFormat>(both, 0);
    second = WeightPair<kFormat>(both, 1);
  } else {
    const uint32_t word = words[lane];
    first = WeightPair<kFormat>(&word, 0);
    second = WeightPair<kFormat>(&word, 1);
  }
  return {first.x, first.y, second.x, second.y};
}

// Adds one row's live neurons of one half block, bit n of `live` being neuron n, to sum. x: this
// lane's input.
template <WeightFormat kFormat>
__device__ inline void AddLive(float4* sum, uint32_t live, float x, const uint8_t* weights,
                               int lane) {
  while (live != 0) {
    const int n = __ffs(static_cast<int>(live)) - 1;
    live &= live - 1;
    const float input = __shfl_sync(kAllLanes, x, n);
    const float4 w = LaneWeights<kFormat>(weights + n * SparseTile<kFormat>::kBytes, lane);
    sum->x = fmaf(input, w.x, sum->x);
    sum->y = fmaf(input, w.y, sum->y);
    sum->z = fmaf(input, w.z, sum->z);
    sum->w = fmaf(input, w.w, sum->w);
  }
}

// blockIdx: span, channel tile, group of 64 rows; clusters of 8 spans. Row r of a group belongs to
// warp r % 8.
template <WeightFormat kFormat>
__global__ void __launch_bounds__(kSparseThreads, 2)
    SparseManyKernel(const __grid_constant__ SparseJob job) {
  constexpr int kHalfBytes = kNeuronBlock / 2 * SparseTile<kFormat>::kBytes;
  extern __shared__ __align__(16) uint8_t memory[];
  ManyShared<kFormat>& shared = *reinterpret_cast<ManyShared<kFormat>*>(memory);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first_row = static_cast<int>(blockIdx.z) * kManyRows;
  const int channel = static_cast<int>(blockIdx.y) * kChannelTile + lane * kLaneChannels;
  const int first = SpanBlock(job.neurons, static_cast<int>(blockIdx.x));
  const int end = SpanBlock(job.neurons, static_cast<int>(blockIdx.x) + 1);
  float span[kWarpRows][kLaneChannels] = {};
  if (first < end) FillBlock<kFormat>(shared.weights[0], job, first);
  CopyAsyncCommit();
  WaitForEarlier();
  for (int block = first; block < end; ++block) {
    float x[kWarpRows][2];
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = first_row + r * kManyWarps + warp;
        const int neuron = block * kNeuronBlock + half * kWarp + lane;
        const bool present = row < job.rows && neuron < job.neurons;
        x[r][half] = present ? job.x[row * job.x_stride + neuron] : 0.0f;
      }
    }
    CopyAsyncWait<0>();
    // The weights are there for all, and nobody uses those of the block before.
    __syncthreads();
    const int slot = (block - first) % 2;
    if (block + 1 < end) FillBlock<kFormat>(shared.weights[1 - slot], job, block + 1);
    CopyAsyncCommit();
    const uint8_t* weights = shared.weights[slot];
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
      float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t live = __ballot_sync(kAllLanes, !(x[r][half] == 0.0f));
        AddLive<kFormat>(&sum, live, x[r][half], weights + half * kHalfBytes, lane);
      }
      const float parts[kLaneChannels] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
      for (int c = 0; c < kLaneChannels; ++c)
        span[r][c] = AddBlock<kFormat>(job, span[r][c], parts[c], block, channel + c);
    }
  }
#pragma unroll
  for (int r = 0; r < kWarpRows; ++r) {
#pragma unroll
    for (int c = 0; c < kLaneChannels; ++c) {
      const int row = r * kManyWarps + warp;
      shared.sums[row * kChannelTile + lane * kLaneChannels + c] = span[r][c];
    }
  }
  FinishSpans<kFormat>(job, shared.sums, first_row, min(job.rows - first_row, kManyRows));
}

}  // namespace tandem
