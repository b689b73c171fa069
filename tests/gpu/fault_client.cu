// A CUDA program that brings harm to the GPU it shares: it writes where it may not, or with the
// argument "spin" it runs a kernel that takes a minute, to be killed in the middle of it. Under MPS
// either reaches every client of the server; without MPS nobody else notices. Prints what became of
// it; exit code 0 when it did fault.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

namespace {

__global__ void Write(int* to) { *to = 1; }

// started: mapped host memory.
__global__ void Spin(volatile int* started, long long nanoseconds) {
  *started = 1;
  long long now, begin;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

cudaError_t SpinAMinute() {
  int* started = nullptr;
  cudaError_t error = cudaHostAlloc(&started, sizeof(int), cudaHostAllocMapped);
  if (error != cudaSuccess) return error;
  Spin<<<1, 1>>>(started, 60'000'000'000);
  error = cudaGetLastError();
  while (error == cudaSuccess && *static_cast<volatile int*>(started) == 0) {
  }
  std::puts("spinning");
  std::fflush(stdout);
  return error == cudaSuccess ? cudaDeviceSynchronize() : error;
}

}  // namespace

int main(int argc, char** argv) {
  int* memory = nullptr;
  cudaError_t error = cudaMalloc(&memory, sizeof(int));
  if (error == cudaSuccess) {
    Write<<<1, 1>>>(memory);
    error = cudaDeviceSynchronize();
  }
  if (error == cudaSuccess && argc > 1 && std::strcmp(argv[1], "spin") == 0) {
    error = SpinAMinute();
    std::printf("nobody killed it: %s\n", cudaGetErrorString(error));
    return 1;
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
