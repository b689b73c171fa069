// A CUDA program that writes where it may not. Under MPS the fault reaches every client
// of the server; without MPS nobody else notices. Prints what became of it; exit code 0 when it did
// fault.
#include <cuda_runtime.h>

#include <cstdio>

namespace {

__global__ void Write(int* to) { *to = 1; }

}  // namespace

int main() {
  int* memory = nullptr;
  cudaError_t error = cudaMalloc(&memory, sizeof(int));
  if (error == cudaSuccess) {
    Write<<<1, 1>>>(memory);
    error = cudaDeviceSynchronize();
  }
  if (error != cudaSuccess) {
    std::printf("no GPU for a fault: %s\n", cudaGetErrorString(error));
    return 2;
  }
  // Beyond every allocation.
  Write<<<1, 1>>>(memory + (size_t{1} << 40));
  error = cudaDeviceSynchronize();
  std::printf("fault: %s\n", cudaGetErrorString(error));
  return error == cudaErrorIllegalAddress ? 0 : 1;
}
