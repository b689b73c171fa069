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

// The dense ops multiply bf16 weights with activations of two bf16 pieces, sixteen digits, so that
// little is added to the roundings of another order.
Tolerances GoldenTolerances() {
  return {.logits = 1e-3,
          .features = 1e-3,
          .shift_sum = 1e-2,
          .wkv_sum = 1e-4,
          .choice_margin = 2e-3,
          .greedy_margin = 2e-3,
          .draft_logits = 1e-3,
          .draft_margin = 2e-3,
          .accepted = 0.0};
}

}  // namespace tandem
