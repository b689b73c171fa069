#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "tests/bench/read_rate.h"

namespace tandem {
namespace {

constexpr size_t kBytes = size_t{4} << 30;
constexpr int kThreads = 512, kBlocksPerSm = 4, kBatch = 8;
constexpr int kRuns = 15;

// words [count], a multiple of kBatch times the threads of the grid. Writes only what no sum is.
__global__ void __launch_bounds__(kThreads)
    ReadKernel(const uint4* words, size_t count, uint4* never) {
  const size_t threads = size_t{gridDim.x} * kThreads;
  uint32_t all = 0;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count; i += kBatch * threads) {
    uint4 batch[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) batch[b] = __ldcs(words + i + b * threads);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) all |= batch[b].x | batch[b].y | batch[b].z | batch[b].w;
  }
  // The buffer holds zeros.
  if (all != 0) *never = make_uint4(all, 0, 0, 0);
}

}  // namespace

double MeasureReadRate(int device) {
  cudaDeviceProp properties;
  if (cudaSetDevice(device) != cudaSuccess ||
      cudaGetDeviceProperties(&properties, device) != cudaSuccess)
    return 0;
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, kBytes));
  CUDA_CHECK(cudaMemset(memory, 0, kBytes));
  const unsigned blocks = static_cast<unsigned>(properties.multiProcessorCount * kBlocksPerSm);
  const size_t round = size_t{blocks} * kThreads * kBatch;
  const size_t count = kBytes / sizeof(uint4) / round * round;
  cudaEvent_t begin, end;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::array<float, kRuns> times;
  for (float& milliseconds : times) {
    CUDA_CHECK(cudaEventRecord(begin));
    ReadKernel<<<blocks, kThreads>>>(static_cast<const uint4*>(memory), count,
                                     static_cast<uint4*>(memory));
    CUDA_CHECK(cudaEventRecord(end));
    CUDA_CHECK(cudaEventSynchronize(end));
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  }
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  CUDA_CHECK(cudaFree(memory));
  std::sort(times.begin(), times.end());
  return static_cast<double>(count * sizeof(uint4)) / (times[kRuns / 2] / 1e3);
}

}  // namespace tandem
