#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "kernels/launch_cuda.cuh"
#include "kernels/memory_cuda.h"

namespace tandem {
namespace {

// Smaller allocations share a page with others, and a handle exports whole pages.
constexpr size_t kExportPage = size_t{2} << 20;
static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(ExportHandle::ipc));

// Null when the device is out of memory.
void* Malloc(size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();  // it would be found by the next check of a launch
    return nullptr;
  }
  CUDA_CHECK(error);
  return memory;
}

// Bytes from `memory` to the end of its allocation; 0 when unknown. Asked of the driver, which the
// runtime loads: linking it would keep the program from starting on machines without one.
size_t BytesFrom(void* memory) {
  using Function = CUresult(CUdeviceptr*, size_t*, CUdeviceptr);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &function,
                                                             12000, cudaEnableDefault, &found);
  if (error != cudaSuccess || found != cudaDriverEntryPointSuccess) return 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  const CUdeviceptr at = reinterpret_cast<CUdeviceptr>(memory);
  if (reinterpret_cast<Function*>(function)(&base, &bytes, at) != CUDA_SUCCESS) return 0;
  return bytes - (at - base);
}

}  // namespace

MemoryCuda::~MemoryCuda() {
  // After a device fault these fail, and there is nothing left to give back.
  for (void* memory : imported_) (void)cudaIpcCloseMemHandle(memory);
  for (void* memory : own_) (void)cudaFree(memory);
}

void* MemoryCuda::Allocate(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  void* memory = Malloc(bytes);
  if (memory == nullptr) return nullptr;
  own_.insert(memory);
  CUDA_CHECK(cudaMemsetAsync(memory, 0, bytes, stream_));
  return memory;
}

void* MemoryCuda::AllocateExported(size_t bytes, ExportHandle* handle) {
  if (bytes > SIZE_MAX - kExportPage) return nullptr;
  const size_t pages = (std::max<size_t>(bytes, 1) + kExportPage - 1) / kExportPage;
  void* memory = Allocate(pages * kExportPage);
  if (memory == nullptr) return nullptr;
  cudaIpcMemHandle_t ipc;
  if (cudaIpcGetMemHandle(&ipc, memory) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;  // the memory is freed with the others
  }
  *handle = ExportHandle{.bytes = bytes};
  std::memcpy(handle->ipc, &ipc, sizeof(ipc));
  return memory;
}

void* MemoryCuda::Import(const ExportHandle& handle) {
  cudaIpcMemHandle_t ipc;
  std::memcpy(&ipc, handle.ipc, sizeof(ipc));
  void* memory = nullptr;
  if (handle.bytes == 0 ||
      cudaIpcOpenMemHandle(&memory, ipc, cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
    (void)cudaGetLastError();
    return nullptr;
  }
  imported_.insert(memory);
  if (BytesFrom(memory) >= handle.bytes) return memory;
  Unimport(memory);
  return nullptr;
}

bool MemoryCuda::WithScratch(size_t bytes, const std::function<void(uint8_t*)>& use) {
  if (bytes == 0) return true;
  void* const memory = Malloc(bytes);
  if (memory == nullptr) return false;
  use(static_cast<uint8_t*>(memory));
  CUDA_CHECK(cudaFree(memory));
  return true;
}

void MemoryCuda::Unimport(void* memory) {
  if (imported_.erase(memory) > 0) CUDA_CHECK(cudaIpcCloseMemHandle(memory));
}

}  // namespace tandem
