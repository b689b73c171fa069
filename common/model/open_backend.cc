#include "common/model/open_backend.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "kernels/backend_cuda.h"

namespace tandem {

absl::StatusOr<OpenedBackend> OpenBackend(const std::string& name, int threads,
                                          bool batch_invariant) {
  if (name == "cpu") return OpenedBackend{.backend = MakeCpuBackend(threads)};
  if (name != "cuda" && name != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend=", name, ": must be auto, cpu or cuda"));
  }
  CudaStart start = MakeCudaBackend({.batch_invariant = batch_invariant});
  if (start.backend != nullptr) {
    return OpenedBackend{.backend = std::move(start.backend),
                         .device_uuid = start.device.uuid,
                         .device_name = start.device.name,
                         .mps = start.device.mps};
  }
  // Whoever gives up batch invariance wants a GPU that is there to be fast, not the CPU.
  if (name == "cuda" || (!batch_invariant && MakeCudaBackend({}).backend != nullptr)) {
    return absl::FailedPreconditionError(absl::StrCat("--backend=", name, ": ", start.refused));
  }
  LOG(INFO) << "backend cpu: " << start.refused;
  return OpenedBackend{.backend = MakeCpuBackend(threads)};
}

}  // namespace tandem
