// Compiled in place of the CUDA sources where there is no toolkit.
#include "kernels/backend_cuda.h"

namespace tandem {

CudaStart MakeCudaBackend(const CudaOptions&) {
  return {.refused =
              "this tandem was built without CUDA: no toolkit was found when it was configured"};
}

}  // namespace tandem
