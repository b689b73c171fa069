#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace tandem {

// A backend, and what tells its device from others.
struct OpenedBackend {
  std::unique_ptr<Backend> backend;
  std::string device_uuid;  // of a GPU; empty on the CPU
  std::string device_name;  // of a GPU; empty on the CPU
  bool mps = false;         // of a GPU: its contexts are shared through an MPS server
};

// The backend that --backend names: "cpu", "cuda", or "auto", which takes CUDA where it can work
// and logs why it does not. FAILED_PRECONDITION, saying why, where "cuda" cannot work;
// INVALID_ARGUMENT for another name. `threads` as in MakeCpuBackend; batch_invariant as in
// CudaOptions, the CPU backend always is.
absl::StatusOr<OpenedBackend> OpenBackend(const std::string& name, int threads,
                                          bool batch_invariant = true);

}  // namespace tandem
