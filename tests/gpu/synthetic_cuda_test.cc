// A real size on the device: the tests of tests/model run there at small sizes.

#include <memory>

#include "common/model/synthetic.h"
#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"
#include "tests/model/synthetic_sequence.h"

namespace tandem {
namespace {

struct Kind {
  WeightFormat format;
  bool rounded_inputs = false;
};

class SyntheticCudaTest : public testing::TestWithParam<Kind> {
 protected:
  static SyntheticModel Model() {
    SyntheticModel model = SyntheticOfSize("2.9b").value();
    model.format = GetParam().format;
    model.rounded_inputs = GetParam().rounded_inputs;
    return model;
  }
};

TEST_P(SyntheticCudaTest, DraftsDoNotChangeLogits) {
  std::unique_ptr<Backend> one = CudaOrNull(), other = CudaOrNull();
  if (one == nullptr) GTEST_SKIP() << "no CUDA device";
  SyntheticSequence plain(std::move(one), Model(), kMaxDrafts + 1, TimedBackend::Measure::kNothing);
  SyntheticSequence spec(std::move(other), Model(), kMaxDrafts + 1,
                         TimedBackend::Measure::kNothing);
  EXPECT_EQ(DraftsThatChangeLogits(plain, spec, 40), 0);
}

TEST_P(SyntheticCudaTest, TheWantedShareOfActivationsIsZero) {
  std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  SyntheticSequence sequence(std::move(cuda), Model(), kMaxDrafts + 1,
                             TimedBackend::Measure::kLive);
  for (int i = 0; i < 20; ++i) sequence.Pass(sequence.Tokens(1), {});
  EXPECT_NEAR(1.0 - sequence.backend().Live().share(), Model().zero_share, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Formats, SyntheticCudaTest,
                         testing::Values(Kind{WeightFormat::kBf16}, Kind{WeightFormat::kFp8},
                                         Kind{WeightFormat::kFp8, /*rounded_inputs=*/true},
                                         Kind{WeightFormat::kInt8}, Kind{WeightFormat::kInt6}));

}  // namespace
}  // namespace tandem
