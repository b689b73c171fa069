#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/backend.h"

namespace tandem {

// One CUDA device as its driver describes it.
struct CudaDevice {
  int ordinal = 0;
  std::string name;       // "NVIDIA H200"
  std::string uuid;       // "GPU-01234567-89ab-cdef-0123-456789abcdef"
  int compute_major = 0;  // 9 of 9.0
  int compute_minor = 0;  // 0 of 9.0
  int multiprocessors = 0;
  size_t l2_bytes = 0;
  size_t memory_bytes = 0;       // of the whole device
  size_t free_memory_bytes = 0;  // when it was asked
  bool mps = false;              // contexts are shared through an MPS server
};

struct CudaOptions {
  int device = 0;  // ordinal among the devices that CUDA_VISIBLE_DEVICES leaves visible
  // Most recorded graphs kept; the least recently used one goes first. >= 1.
  int most_graphs = 256;
  // Off: linear ops of many rows go through cuBLASLt (kernels/linear/gemm_cuda.h), and the bits of
  // their rows depend on how many there are.
  bool batch_invariant = true;
};

// A backend on one CUDA device, or why there is none.
struct CudaStart {
  std::unique_ptr<Backend> backend;  // null when refused
  CudaDevice device;                 // as far as it could be asked
  std::string refused;               // a sentence for the operator; empty when there is a backend
};

// Refuses where tandem was built without CUDA, there is no driver or device, the device's
// architecture was not compiled in, its context cannot be made, or cuBLASLt is wanted and cannot be
// loaded.
CudaStart MakeCudaBackend(const CudaOptions& options);

}  // namespace tandem
