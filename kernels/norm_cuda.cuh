#pragma once

#include "kernels/launch_cuda.cuh"

namespace tandem {

inline constexpr float kLayerNormEps = 1e-5f;

// One row's mean and 1 / sqrt(population variance + eps), in every thread of the block, which must
// call it together. `x` [width]; `parts` as in BlockSum.
struct RowMoments {
  float mean;
  float scale;
};
__device__ inline RowMoments MomentsOf(const float* x, int width, float eps, float* parts) {
  float sum = 0.0f;
  for (int c = threadIdx.x; c < width; c += blockDim.x) sum += x[c];
  const float mean = BlockSum(sum, parts) / static_cast<float>(width);
  float squares = 0.0f;
  for (int c = threadIdx.x; c < width; c += blockDim.x) {
    const float centred = x[c] - mean;
    squares += centred * centred;
  }
  const float variance = BlockSum(squares, parts) / static_cast<float>(width);
  return {mean, 1.0f / sqrtf(variance + eps)};
}

__device__ inline float Normed(float x, const RowMoments& moments, float weight, float bias) {
  return (x - moments.mean) * moments.scale * weight + bias;
}

}  // namespace tandem
