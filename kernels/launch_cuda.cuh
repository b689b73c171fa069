#pragma once

#include <cuda_runtime.h>

#include "kernels/device_cuda.h"
#include "kernels/fault_cuda.h"

// Ends the process where a CUDA call fails: after the start only a broken device or our own mistake
// can cause it.
#define CUDA_CHECK(call)                                                                    \
  do {                                                                                      \
    const cudaError_t error_ = (call);                                                      \
    if (error_ != cudaSuccess) ::tandem::EndOnCudaError(__FILE__, __LINE__, #call, error_); \
  } while (false)

namespace tandem {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

__host__ __device__ constexpr int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// Launches kernel(args...) on the device's stream; an empty grid is no launch.
template <class... Parameters, class... Args>
void Launch(const DeviceCuda& device, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            size_t shared_bytes, Args... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  kernel<<<grid, block, shared_bytes, device.stream>>>(args...);
  CUDA_CHECK(cudaGetLastError());
}

// The sum over a warp, in every lane, in one order.
__device__ inline float WarpSum(float value) {
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// The sum over a block of at most 1024 threads, a multiple of 32, in every thread, in one order.
// `parts` is [33] shared floats; the block may not use them before its next barrier.
__device__ inline float BlockSum(float value, float* parts) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  value = WarpSum(value);
  __syncthreads();
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp == 0) {
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    const float sum = WarpSum(lane < warps ? parts[lane] : 0.0f);
    if (lane == 0) parts[kWarp] = sum;
  }
  __syncthreads();
  return parts[kWarp];
}

}  // namespace tandem
