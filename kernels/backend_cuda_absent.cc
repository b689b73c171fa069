// Compiled in place of the CUDA sources where there is no toolkit, and under the sanitizers.
#include "kernels/backend_cuda.h"

namespace tandem {

CudaStart MakeCudaBackend(const CudaOptions&) {
  return {.refused = "this tandem was built without CUDA"};
}

}  // namespace tandem
