#pragma once

#include <cuda_runtime.h>

#include "kernels/device_cuda.h"
#include "kernels/fault_cuda.h"

// Kernels overlap at their ends (programmatic dependent launch): one that LaunchOverlapped starts
// may begin while the kernels before it still run. It calls WaitForEarlier before it reads what a
// kernel wrote or writes what one reads; before that it may read only what no kernel writes:
// arguments, weights, and what the host copied. __ldg is for those alone, since the compiler may
// move it across the wait.

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

inline cudaLaunchAttribute OverlapAttribute() {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// Launch of a kernel that calls WaitForEarlier.
template <class... Parameters, class... Args>
void LaunchOverlapped(const DeviceCuda& device, void (*kernel)(Parameters...), dim3 grid,
                      dim3 block, size_t shared_bytes, Args... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchAttribute overlap = OverlapAttribute();
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = device.stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(args)...));
}

// Until all kernels enqueued before this one have finished, and what they wrote is there. Some
// block of every kernel calls it, or those after it would not wait for those before it.
__device__ inline void WaitForEarlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may begin once every block of this one has called this or has ended.
__device__ inline void LetNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// For a kernel that has nothing to do before the wait.
__device__ inline void BeginOverlapped() {
  LetNextStart();
  WaitForEarlier();
}

// Brings the 128 bytes around `at` to the L2 cache; harmless whatever is written there.
__device__ inline void PrefetchLine(const void* at) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
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
