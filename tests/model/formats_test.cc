// The model with its matrices rounded to the smaller formats: near the unrounded one, and as exact.

#include <cmath>
#include <iostream>

#include "common/model/weight_format.h"
#include "common/model/weights_source.h"
#include "gmock/gmock.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

struct Case {
  WeightFormat matrices;
  WeightFormat head;
  bool rounded_inputs;
  // Root mean square of the rounding errors of a matrix as a share of its weights':
  //   fp8    3 bits behind the point, so evenly within 2^-4 of the binade: 2^-4 / sqrt(3)
  //   int8   steps of a row's largest / 127, which is 4 times the weights' spread: 4 / 127 /
  //   sqrt(12) int6   steps of a group's largest / 31, which is 3 times the spread: 3 / 31 /
  //   sqrt(12)
  // Inputs rounded to fp8 have an error of the same share, independent of the weights': sqrt(2)
  // times the fp8 one.
  double error;
};
const Case kCases[] = {{WeightFormat::kFp8, WeightFormat::kBf16, false, 0.0361},
                       {WeightFormat::kFp8, WeightFormat::kFp8, false, 0.0361},
                       {WeightFormat::kInt8, WeightFormat::kBf16, false, 0.0091},
                       {WeightFormat::kInt8, WeightFormat::kInt8, false, 0.0091},
                       {WeightFormat::kInt6, WeightFormat::kBf16, false, 0.0280},
                       {WeightFormat::kFp8, WeightFormat::kBf16, true, 0.0511}};

class FormatsTest : public testing::TestWithParam<Case> {
 protected:
  FormatsTest()
      : model_(2, {.matrices = GetParam().matrices,
                   .head = GetParam().head,
                   .rounded_inputs = GetParam().rounded_inputs}) {}

  static DemoModel& Unrounded() {
    static DemoModel* const model = new DemoModel();
    return *model;
  }
  static std::vector<int32_t> Text() {
    std::vector<int32_t> text = Tokens(Golden()["cases"][0]["ids"]);
    text.resize(60);
    return text;
  }
  DemoModel model_;
};

// Spread of the values around their mean.
double Spread(const std::vector<float>& values) {
  double sum = 0.0, squares = 0.0;
  for (const float value : values) sum += value;
  const double mean = sum / static_cast<double>(values.size());
  for (const float value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Independent errors of the weights make as large a share of every product. A branch of the
// residual stream has two matrices behind each other, so its share is sqrt(2) errors; branches and
// their errors both add up as squares, so the stream's share is a branch's. The head adds one more:
// sqrt(3) errors. Twice that for what later layers make of the errors of earlier ones.
TEST_P(FormatsTest, LogitsStayNearTheUnroundedOnes) {
  const Slot slot = model_.Acquire(), other = Unrounded().Acquire();
  const std::vector<std::vector<float>> actual = model_.Feed(slot, Text(), 64);
  const std::vector<std::vector<float>> expected = Unrounded().Feed(other, Text(), 64);
  const double allowed = 2.0 * std::sqrt(3.0) * GetParam().error;
  double squares = 0.0;
  for (size_t row = 0; row < actual.size(); ++row) {
    std::vector<float> difference(actual[row].size());
    for (size_t i = 0; i < difference.size(); ++i)
      difference[i] = actual[row][i] - expected[row][i];
    const double share = Spread(difference) / Spread(expected[row]);
    squares += share * share / static_cast<double>(actual.size());
  }
  std::cout << "distance of the logits: " << std::sqrt(squares) << ", allowed " << allowed << "\n";
  EXPECT_LT(std::sqrt(squares), allowed);
  EXPECT_GT(squares, 0.0) << "nothing was rounded";
}

TEST_P(FormatsTest, DraftedRowsEqualPlainOnesBitForBit) {
  const std::vector<int32_t> text = Text();
  const Slot plain = model_.Acquire(), drafted = model_.Acquire();
  const std::vector<std::vector<float>> expected = model_.Feed(plain, text, 1);
  std::vector<std::vector<float>> actual;
  for (size_t at = 0; at < text.size(); at += 4) {
    const auto begin = text.begin() + static_cast<int64_t>(at);
    for (auto& row :
         model_.Run({{.slot = &drafted, .certain = {*begin}, .drafts = {begin + 1, begin + 4}}})) {
      actual.push_back(std::move(row));
    }
    model_.state().SetAccepted(drafted, 3);
  }
  ExpectSameRows(actual, expected);
}

TEST(RoundedInputsTest, NeedFp8Matrices) {
  const std::unique_ptr<Backend> backend = MakeTestBackend(1);
  const auto source = WeightsSource::Open("deploy/demo-model");
  ASSERT_TRUE(source.ok()) << source.status();
  const auto refused = ModelWeights::Load(
      backend.get(), **source, {.matrices = WeightFormat::kInt8, .rounded_inputs = true});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::StartsWith("--activations=fp8 needs matrices in fp8: --weights=fp8, or"));
  const auto taken = ModelWeights::Load(backend.get(), **source,
                                        {.matrices = WeightFormat::kFp8, .rounded_inputs = true});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->FormatText(), "fp8, activations fp8");
}

INSTANTIATE_TEST_SUITE_P(Formats, FormatsTest, testing::ValuesIn(kCases), [](const auto& instance) {
  return std::string(WeightFormatName(instance.param.matrices)) + "_head_" +
         WeightFormatName(instance.param.head) +
         (instance.param.rounded_inputs ? "_activations_fp8" : "");
});

}  // namespace
}  // namespace tandem
