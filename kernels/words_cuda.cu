#include <cuda.h>

#include "kernels/launch_cuda.cuh"
#include "kernels/words_cuda.h"

namespace tandem {
namespace {

using StreamOperation = CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned);

// Of the driver, which is not linked. Null where it has none.
StreamOperation Find(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSuccess)
    return reinterpret_cast<StreamOperation>(entry);
  (void)cudaGetLastError();
  return nullptr;
}

StreamOperation WaitValue() {
  static const StreamOperation operation = Find("cuStreamWaitValue32");
  return operation;
}

StreamOperation WriteValue() {
  static const StreamOperation operation = Find("cuStreamWriteValue32");
  return operation;
}

CUdeviceptr Address(const uint32_t* word) { return reinterpret_cast<CUdeviceptr>(word); }

// The runtime's errors have the driver's numbers.
void Check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) EndOnCudaError(__FILE__, __LINE__, what, result);
}

}  // namespace

WordsCuda::WordsCuda(CUstream_st* stream) : stream_(stream) {
  CUDA_CHECK(cudaStreamCreateWithFlags(&rescue_, cudaStreamNonBlocking));
  CUDA_CHECK(cudaHostAlloc(&passed_, sizeof(*passed_), cudaHostAllocPortable));
  *passed_ = 0;
  if (WaitValue() == nullptr || WriteValue() == nullptr) return;
  // The first use of a stream costs most, and the device's attribute says no where this works.
  supported_ = WriteValue()(rescue_, Address(passed_), 0, 0) == CUDA_SUCCESS &&
               WaitValue()(stream_, Address(passed_), 0, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS;
  CUDA_CHECK(cudaStreamSynchronize(rescue_));
  CUDA_CHECK(cudaStreamSynchronize(stream_));
}

WordsCuda::~WordsCuda() {
  (void)cudaStreamDestroy(rescue_);
  (void)cudaFreeHost(passed_);
}

void WordsCuda::Wait(uint32_t* word, uint32_t value) {
  const std::lock_guard lock(mutex_);
  word_ = word;
  value_ = value;
  ++waits_;
  Check(WaitValue()(stream_, Address(word), value, CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue32");
  Check(WriteValue()(stream_, Address(passed_), waits_, 0), "cuStreamWriteValue32");
}

void WordsCuda::Write(uint32_t* word, uint32_t value) {
  Check(WriteValue()(stream_, Address(word), value, 0), "cuStreamWriteValue32");
}

bool WordsCuda::Release() {
  const std::lock_guard lock(mutex_);
  if (*const_cast<volatile uint32_t*>(passed_) == waits_) return false;
  Check(WriteValue()(rescue_, Address(word_), value_, 0), "cuStreamWriteValue32");
  CUDA_CHECK(cudaStreamSynchronize(rescue_));
  return true;
}

}  // namespace tandem
