#include "tests/test_backend.h"

namespace tandem {

std::unique_ptr<Backend> MakeTestBackend(int threads) { return MakeCpuBackend(threads); }

// The stored numbers are rounded to five digits after the point or fewer; another order of fp32
// sums does the rest.
Tolerances GoldenTolerances() {
  return {.logits = 1e-3,
          .features = 1e-3,
          .shift_sum = 5e-3,
          .wkv_sum = 2e-5,
          .choice_margin = 0.0,
          .greedy_margin = 2e-3,
          .draft_logits = 2e-4,
          .draft_margin = 0.0,
          .accepted = 0.0};
}

}  // namespace tandem
