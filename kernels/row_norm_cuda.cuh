#pragma once

#include "kernels/norm_cuda.cuh"

namespace tandem {

// Threads that share one row's sums, so that a block norms several rows at once and a row's bits do
// not depend on how many they are.
inline constexpr int kNormThreads = 128;

// `at` is 16-byte aligned. LoadWeight4 is for what no kernel writes.
__device__ inline float4 Load4(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ inline float4 LoadWeight4(const float* at) {
  return __ldg(reinterpret_cast<const float4*>(at));
}
__device__ inline void Store4(float* at, const float4& value) {
  *reinterpret_cast<float4*>(at) = value;
}

// The sum over each group of kNormThreads threads, in every thread of the group, in one order.
// `parts` [warps of the block] is free again after the block's next barrier.
__device__ inline float GroupSum(float value, float* parts) {
  constexpr int kWarps = kNormThreads / kWarp;
  static_assert(kWarps == 4);
  value = WarpSum(value);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  __syncthreads();
  const float* group = parts + threadIdx.x / kNormThreads * kWarps;
  return (group[0] + group[1]) + (group[2] + group[3]);
}

// This thread's share of the sum of x [width] (kSquares: of (x - mean)²); width is a multiple of 4.
template <bool kSquares>
__device__ inline float ThreadSum(const float* x, int width, float mean) {
  constexpr int kBatch = 8;  // independent loads: all of a row up to a width of 4096
  const int vectors = width / 4;
  float sum = 0.0f;
  for (int first = threadIdx.x % kNormThreads; first < vectors; first += kBatch * kNormThreads) {
    float4 values[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = first + i * kNormThreads;
      values[i] = at < vectors ? Load4(x + 4 * at) : make_float4(mean, mean, mean, mean);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float4 v = values[i];
      if constexpr (kSquares) {
        const float a = v.x - mean, b = v.y - mean, c = v.z - mean, d = v.w - mean;
        sum = __fmaf_rn(d, d, __fmaf_rn(c, c, __fmaf_rn(b, b, __fmaf_rn(a, a, sum))));
      } else {
        sum += (v.x + v.y) + (v.z + v.w);
      }
    }
  }
  return sum;
}

// Moments of the `count` rows of x [count, width] into shared moments [count]. All threads of the
// block, a multiple of kNormThreads, call it together; nobody may read `moments` or use `parts` of
// an earlier call past its first barrier. `parts` [2 * warps of the block] shared.
__device__ inline void RowMomentsOf(const float* x, int width, int count, RowMoments* moments,
                                    float* parts) {
  const int groups = static_cast<int>(blockDim.x) / kNormThreads;
  float* const square_parts = parts + blockDim.x / kWarp;
  for (int first = 0; first < count; first += groups) {
    const int row = first + static_cast<int>(threadIdx.x) / kNormThreads;
    const bool exists = row < count;
    const float* from = x + static_cast<size_t>(exists ? row : 0) * width;
    // Two sets of parts: each is read before the barrier that lets the other be written again.
    const float sum = exists ? ThreadSum<false>(from, width, 0.0f) : 0.0f;
    const float mean = GroupSum(sum, parts) / static_cast<float>(width);
    const float squares = exists ? ThreadSum<true>(from, width, mean) : 0.0f;
    const float variance = GroupSum(squares, square_parts) / static_cast<float>(width);
    if (exists && threadIdx.x % kNormThreads == 0) {
      moments[row] = {mean, 1.0f / sqrtf(variance + kLayerNormEps)};
    }
  }
  __syncthreads();
}

__device__ inline float NormedOne(float x, const RowMoments& moments, float weight, float bias) {
  return __fmaf_rn(__fmul_rn(__fsub_rn(x, moments.mean), moments.scale), weight, bias);
}

// Four neighbouring values of a normed row; the same bits wherever it is called.
__device__ inline float4 Normed4(const float4& x, const RowMoments& moments, const float4& weight,
                                 const float4& bias) {
  return make_float4(
      NormedOne(x.x, moments, weight.x, bias.x), NormedOne(x.y, moments, weight.y, bias.y),
      NormedOne(x.z, moments, weight.z, bias.z), NormedOne(x.w, moments, weight.w, bias.w));
}

}  // namespace tandem
