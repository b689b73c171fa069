#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "kernels/fault_cuda.h"

namespace tandem {
namespace {

// After these every later call fails too.
bool IsGpuLost(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDevicesUnavailable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

void EndOnCudaError(const char* file, int line, const char* call, int error) {
  const auto code = static_cast<cudaError_t>(error);
  const bool lost = IsGpuLost(code);
  std::fprintf(stderr, "CUDA backend: %s%s (%s:%d: %s)\n", lost ? "the GPU is lost: " : "",
               cudaGetErrorString(code), file, line, call);
  std::fflush(stderr);
  if (lost) std::_Exit(kGpuLostExitCode);
  std::abort();
}

}  // namespace tandem
