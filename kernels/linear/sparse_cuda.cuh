#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/linear/cluster_cuda.cuh"
#include "kernels/linear/epilogue_cuda.cuh"
#include "kernels/linear/expand_cuda.cuh"
#include "kernels/linear/quantize.h"
#include "kernels/linear/sparse_layout_cuda.cuh"

// What the sparse kernels share. The order of a sum depends on F only: in a block of 64 neurons one
// chain of fp32 fused multiply-adds over the neurons in ascending order; the blocks are cut into 8
// spans, in a span the sums of blocks are added in ascending order (Int6: by fused multiply-adds
// with the block's scale), then those of the spans. A zero input changes no sum, so it may be left
// out or not. A span is a thread block, the 8 of a channel tile are a cluster.

namespace tandem {

inline constexpr int kSpans = 8;
inline constexpr int kSparseThreads = 256;

struct SparseJob {
  const uint8_t* weight;  // [F][channel tiles][kBytes]
  const uint8_t* scales;  // after it
  const float* x;         // [M, x_stride]
  float* y;               // [M, y_stride]
  size_t x_stride;
  size_t y_stride;
  int rows;      // M
  int channels;  // C
  int neurons;   // F
  Epilogue epilogue;
  const float* x_scales;  // [M], of the sums; or null
};

__device__ inline int SpanBlock(int neurons, int span) {
  return CeilDiv(neurons, kNeuronBlock) * span / kSpans;
}

// The weights of 2 channels out of a few packed words: pair p of them.
template <WeightFormat kFormat>
__device__ inline float2 WeightPair(const uint32_t* words, int pair) {
  if constexpr (kFormat == WeightFormat::kBf16) {
    return {__uint_as_float(words[pair] << 16), __uint_as_float(words[pair] & 0xffff0000u)};
  } else if constexpr (kFormat == WeightFormat::kFp8) {
    const uint32_t two = words[pair / 2] >> (pair % 2 * 16);
    const __half2_raw halves =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
    return __half22float2(*reinterpret_cast<const __half2*>(&halves));
  } else {
    // Code + 128 as the low byte of 2^23.
    const uint32_t first = pair % 2 * 2, word = words[pair / 2];
    const uint32_t low = __byte_perm(word, 0x4b000000u, 0x7650u + first);
    const uint32_t high = __byte_perm(word, 0x4b000000u, 0x7650u + first + 1);
    return {__uint_as_float(low) - 8388736.0f, __uint_as_float(high) - 8388736.0f};
  }
}
__device__ inline float2 Int6WeightPair(uint32_t high, uint32_t low, int group, int pair) {
  const uint32_t bits = ExpandInt6(high, low, group, pair);
  return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
}

// span + the sum of a block.
template <WeightFormat kFormat>
__device__ inline float AddBlock(const SparseJob& job, float span, float sum, int block,
                                 int channel) {
  if constexpr (kFormat == WeightFormat::kInt6) {
    const size_t padded = static_cast<size_t>(gridDim.y) * kChannelTile;
    const uint16_t bits = reinterpret_cast<const uint16_t*>(job.scales)[block * padded + channel];
    return fmaf(sum, Bf16ToFloat(bits), span);
  } else {
    return span + sum;
  }
}

// Adds the sums of the spans, sums [rows][128] in the shared memory of each block, and writes y;
// every thread of the cluster. Block s writes channels [16 s, 16 s + 16) of the tile.
template <WeightFormat kFormat>
__device__ inline void FinishSpans(const SparseJob& job, const float* sums, int first_row,
                                   int rows) {
  constexpr int kShare = kChannelTile / kSpans;
  ClusterSync();
  for (int i = threadIdx.x; i < rows * kShare; i += kSparseThreads) {
    const int row = i / kShare, local = static_cast<int>(blockIdx.x) * kShare + i % kShare;
    const int channel = static_cast<int>(blockIdx.y) * kChannelTile + local;
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < kSpans; ++s) sum += ReadCluster(sums + row * kChannelTile + local, s);
    if (channel >= job.channels) continue;
    if (job.x_scales != nullptr) sum *= job.x_scales[first_row + row];
    if constexpr (DenseStep<kFormat>::kRowScale)
      sum *= reinterpret_cast<const float*>(job.scales)[channel];
    float* y = job.y + (first_row + row) * job.y_stride + channel;
    *y = ApplyEpilogue(job.epilogue, sum, y);
  }
  // Nobody leaves while others read its sums.
  ClusterSync();
}

}  // namespace tandem
