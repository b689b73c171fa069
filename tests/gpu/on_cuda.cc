#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"
#include "tests/test_backend.h"

namespace tandem {
namespace {

class NeedsDevice final : public testing::Environment {
 public:
  void SetUp() override {
    if (CudaOrNull() == nullptr) GTEST_SKIP() << "no CUDA device";
  }
};

const testing::Environment* const needs_device =
    testing::AddGlobalTestEnvironment(new NeedsDevice());

}  // namespace

std::unique_ptr<Backend> MakeTestBackend(int) { return CudaOrNull(); }

// Matrices and what they are multiplied with are rounded to bf16's eight digits; a rounding error
// of 2^-9 per term adds up over the layers.
Tolerances GoldenTolerances() {
  return {.logits = 2e-2,
          .features = 5e-2,
          .shift_sum = 0.2,
          .wkv_sum = 2e-3,
          .choice_margin = 4e-2,
          .greedy_margin = 4e-2,
          .draft_logits = 5e-2,
          .draft_margin = 1e-1,
          .accepted = 0.02};
}

}  // namespace tandem
