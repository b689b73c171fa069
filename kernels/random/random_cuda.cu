#include <cuda_bf16.h>

#include "kernels/launch_cuda.cuh"
#include "kernels/random/random_cuda.h"

namespace tandem {
namespace {

constexpr int kRandomThreads = 256;
constexpr int kBlocksPerMultiprocessor = 8;

__device__ inline void Store(float value, float* to) { *to = value; }
__device__ inline void Store(float value, uint16_t* to) {
  *to = __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

// to[count]; each thread makes every stride-th group of four.
template <class T>
__global__ void RandomKernel(T* to, size_t count, RandomFill fill) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  size_t block = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; 4 * block < count; block += stride) {
    const std::array<float, 4> values = RandomBlock(fill, block);
#pragma unroll
    for (size_t i = 0; i < 4; ++i) {
      if (4 * block + i < count) Store(values[i], to + 4 * block + i);
    }
  }
}

template <class T>
void Fill(T* to, size_t count, const RandomFill& fill, const DeviceCuda& device) {
  if (count == 0) return;
  const dim3 grid(static_cast<unsigned>(device.multiprocessors * kBlocksPerMultiprocessor));
  Launch(device, RandomKernel<T>, grid, dim3(kRandomThreads), 0, to, count, fill);
}

}  // namespace

void FillRandomCuda(float* to, size_t count, const RandomFill& fill, const DeviceCuda& device) {
  Fill(to, count, fill, device);
}

void FillRandomBf16Cuda(uint16_t* to, size_t count, const RandomFill& fill,
                        const DeviceCuda& device) {
  Fill(to, count, fill, device);
}

}  // namespace tandem
