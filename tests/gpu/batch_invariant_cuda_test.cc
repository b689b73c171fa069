// A whole model with and without --batch-invariant.

#include <cmath>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

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

class BatchInvariantCudaTest : public testing::TestWithParam<Kind> {
 protected:
  static constexpr int kPrompt = 300;

  void SetUp() override {
    std::unique_ptr<Backend> cuda = CudaOrNull();
    if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
    CudaStart start = MakeCudaBackend({.batch_invariant = false});
    ASSERT_NE(start.backend, nullptr) << start.refused;
    SyntheticModel model = SyntheticOfSize("tiny").value();
    model.format = GetParam().format;
    model.rounded_inputs = GetParam().rounded_inputs;
    on_ = std::make_unique<SyntheticSequence>(std::move(cuda), model, kPrompt,
                                              TimedBackend::Measure::kNothing);
    off_ = std::make_unique<SyntheticSequence>(std::move(start.backend), model, kPrompt,
                                               TimedBackend::Measure::kNothing);
  }
  std::unique_ptr<SyntheticSequence> on_, off_;
};

double Spread(const std::vector<float>& values) {
  double sum = 0.0, squares = 0.0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Rounding to bf16, within 2^-8 of the binade, makes a share of 2^-8 / sqrt(3) of every product, as
// rounding weights does in tests/model/formats_test.cc, and so at most 2 sqrt(3) of that share of
// the logits; weights of Int6 are rounded as well, sqrt(2) of it. With activations in E4M3 both
// paths would sum the same products, but some inputs of the other matrices are rounded to bf16, and
// what differs in the last bits may be rounded to another neighbour in the next layer: at worst as
// if the two had been rounded independently, sqrt(2) times the error of E4M3, 2^-4 / sqrt(3).
TEST_P(BatchInvariantCudaTest, APromptIsNearTheInvariantOne) {
  const std::vector<int32_t> prompt = on_->Tokens(kPrompt);
  const std::vector<float> expected = on_->Pass(prompt, {}).front();
  const std::vector<float> actual = off_->Pass(prompt, {}).front();
  std::vector<float> difference(actual.size());
  for (size_t i = 0; i < actual.size(); ++i) difference[i] = actual[i] - expected[i];
  const double unit = GetParam().rounded_inputs ? std::ldexp(1.0, -4) : std::ldexp(1.0, -8);
  const bool twice = GetParam().rounded_inputs || GetParam().format == WeightFormat::kInt6;
  const double error = unit / std::sqrt(3.0) * (twice ? std::sqrt(2.0) : 1.0);
  const double share = Spread(difference) / Spread(expected);
  std::cout << "distance of the logits: " << share << "\n";
  EXPECT_LT(share, 2.0 * std::sqrt(3.0) * error);
  EXPECT_GT(share, 0.0) << "the prompt did not go through cuBLASLt";
}

TEST_P(BatchInvariantCudaTest, PassesOfUpTo64RowsAreTheSame) {
  const std::vector<int32_t> text = on_->Tokens(64 + 20);
  const absl::Span<const int32_t> all = text;
  EXPECT_EQ(off_->Pass(all.first(64), {}), on_->Pass(all.first(64), {}));
  for (size_t at = 64; at < text.size(); at += 4) {
    EXPECT_EQ(off_->Pass(all.subspan(at, 1), all.subspan(at + 1, 3)),
              on_->Pass(all.subspan(at, 1), all.subspan(at + 1, 3)))
        << at;
    off_->Accept(3);
    on_->Accept(3);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, BatchInvariantCudaTest,
                         testing::Values(Kind{WeightFormat::kBf16}, Kind{WeightFormat::kFp8},
                                         Kind{WeightFormat::kFp8, /*rounded_inputs=*/true},
                                         Kind{WeightFormat::kInt6}));

}  // namespace
}  // namespace tandem
