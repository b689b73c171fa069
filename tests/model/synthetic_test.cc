#include "common/model/synthetic.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/lanes.h"
#include "tests/model/synthetic_sequence.h"
#include "tests/test_backend.h"

namespace tandem {
namespace {

SyntheticModel Tiny(WeightFormat format = WeightFormat::kBf16, double zero_share = 0.90) {
  SyntheticModel model = SyntheticOfSize("tiny").value();
  model.format = format;
  model.zero_share = zero_share;
  return model;
}

// A sequence of a model, whose live activations are counted.
class Sequence final {
 public:
  explicit Sequence(const SyntheticModel& model, int max_rows = kMaxDrafts + 1)
      : sequence_(MakeTestBackend(1), model, max_rows, TimedBackend::Measure::kLive) {}

  // The logits after `count` more tokens.
  std::vector<float> Feed(int count) { return sequence_.Pass(sequence_.Tokens(count), {}).front(); }
  TimedBackend& backend() { return sequence_.backend(); }
  const ModelWeights& weights() const { return sequence_.weights(); }

 private:
  SyntheticSequence sequence_;
};

double Deviation(const std::vector<float>& values) {
  double squares = 0.0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

TEST(SyntheticModelTest, SizesHaveThePublishedParameterCounts) {
  const std::pair<const char*, int64_t> published[] = {
      {"2.9b", 2947735040}, {"7.2b", 7199141888}, {"13.3b", 13269245952}};
  for (const auto& [size, parameters] : published) {
    const ModelConfig config = SyntheticOfSize(size).value().config;
    EXPECT_EQ(ParameterCount(config), parameters) << size;
    EXPECT_EQ(config.heads * kHeadSize, config.width);
    EXPECT_EQ(config.ffn, 4 * config.width);
  }
}

TEST(SyntheticModelTest, UnknownSizesAndSharesAreRefused) {
  EXPECT_EQ(SyntheticOfSize("7b").status().code(), absl::StatusCode::kInvalidArgument);
  const std::unique_ptr<Backend> backend = MakeTestBackend(1);
  for (const double share : {-0.1, 1.0, std::nan("")}) {
    EXPECT_EQ(MakeSynthetic(backend.get(), Tiny(WeightFormat::kBf16, share)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(SyntheticModelTest, TheWantedShareOfActivationsIsZero) {
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kInt8, WeightFormat::kInt6}) {
    for (const double share : {0.5, 0.9, 0.97}) {
      Sequence run(Tiny(format, share));
      for (int i = 0; i < 100; ++i) run.Feed(1);
      EXPECT_NEAR(1.0 - run.backend().Live().share(), share, 0.02) << static_cast<int>(format);
    }
  }
}

// As in text: more than in one token, fewer than in four that know nothing of each other (0.34).
TEST(SyntheticModelTest, TokensDifferInTheirLiveNeurons) {
  Sequence run(Tiny());
  for (int i = 0; i < 100; ++i) run.Feed(4);
  const LiveInputs live = run.backend().Live();
  EXPECT_NEAR(live.share_of_row(), 0.10, 0.02);
  EXPECT_GT(live.share(), 0.20);
  EXPECT_LT(live.share(), 0.36);
}

TEST(SyntheticModelTest, ActivationsStaySaneOverThousandsOfSteps) {
  Sequence run(Tiny(WeightFormat::kFp8), 256);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> logits = run.Feed(256);
    for (const float value : logits) ASSERT_TRUE(std::isfinite(value)) << i;
    EXPECT_GT(Deviation(logits), 0.5);
    EXPECT_LT(Deviation(logits), 2.0);
  }
}

TEST(SyntheticModelTest, DraftsDoNotChangeLogits) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8}) {
    SyntheticSequence plain(MakeTestBackend(1), Tiny(format), kMaxDrafts + 1,
                            TimedBackend::Measure::kNothing);
    SyntheticSequence spec(MakeTestBackend(1), Tiny(format), kMaxDrafts + 1,
                           TimedBackend::Measure::kNothing);
    EXPECT_EQ(DraftsThatChangeLogits(plain, spec, 40), 0) << static_cast<int>(format);
  }
}

TEST(SyntheticModelTest, ASeedIsAModel) {
  const std::vector<float> first = Sequence(Tiny()).Feed(8);
  EXPECT_EQ(Sequence(Tiny()).Feed(8), first);
  SyntheticModel other = Tiny();
  other.seed = 2;
  Sequence changed(other);
  EXPECT_NE(changed.Feed(8), first);
  EXPECT_NE(changed.weights().hash(), Sequence(Tiny()).weights().hash());
}

}  // namespace
}  // namespace tandem
