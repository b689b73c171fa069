#include <cstdio>
#include <cstdlib>

#include "kernels/linear/scratch_cuda.h"

namespace tandem {

void* ScratchTaker::Take(size_t bytes) {
  constexpr size_t kAlignment = 256;
  const size_t at = used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (used_ <= scratch_.bytes) return scratch_.data + at;
  std::fprintf(stderr,
               "CUDA backend: a linear op needs %zu bytes of scratch, Backend::ReserveLinear left "
               "%zu\n",
               used_, scratch_.bytes);
  std::abort();
}

}  // namespace tandem
