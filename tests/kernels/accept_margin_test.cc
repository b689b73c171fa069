// How far a greedy choice lies above the next best one.
#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/accept_fixture.h"

namespace tandem {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class AcceptMarginTest : public ::testing::Test {
 protected:
  float Margin(const Sampling& sampling, const std::vector<float>& logits, int usable_vocab = 0) {
    AcceptFixture fixture(static_cast<int>(logits.size()), 1, usable_vocab);
    fixture.Choose(*backend_, sampling, logits);
    return fixture.margins[0];
  }
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  const Sampling greedy_ = {.temperature = 0.0f};
};

TEST_F(AcceptMarginTest, IsTheGapOfTheTwoLargestWhereverTheyLie) {
  EXPECT_EQ(Margin(greedy_, {1, 3, 2.5f, -1}), 0.5f);
  EXPECT_EQ(Margin(greedy_, {2.5f, 1, 3, -1}), 0.5f);
  EXPECT_EQ(Margin(greedy_, {3, -1, 1, 2.5f}), 0.5f);
  EXPECT_EQ(Margin(greedy_, {3, 1, 3}), 0.0f);
}

TEST_F(AcceptMarginTest, CountsOnlyWhatCouldBeChosen) {
  EXPECT_EQ(Margin(greedy_, {1, 3, 2.5f}, 2), 2.0f);
  EXPECT_EQ(Margin(greedy_, {kNan, 3, kNan, 2}), 1.0f);
  EXPECT_EQ(Margin(greedy_, {-kInf, 3, kNan}), kInf);
}

TEST_F(AcceptMarginTest, IsMeasuredAfterBiasAndPenalties) {
  Sampling penalised = greedy_;
  penalised.presence_penalty = 0.5f;
  AcceptFixture fixture(3, 1);
  fixture.seen[1] = kSeenInReply;
  fixture.counts[1] = 1;
  fixture.Run(*backend_, {{.sampling = penalised,
                           .logits = {{2, 3, 1}},
                           .row_tokens = {0},
                           .bias_ids = {0},
                           .bias_values = {0.25f}}});
  EXPECT_EQ(fixture.tokens[0], 1);
  EXPECT_EQ(fixture.margins[0], 0.25f);  // 3 - 0.5 against 2 + 0.25
}

TEST_F(AcceptMarginTest, IsInfiniteForSampledChoices) {
  EXPECT_EQ(Margin({.temperature = 1.0f}, {1, 3, 2.999f}), kInf);
  EXPECT_EQ(Margin({.temperature = 1e-4f, .top_k = 1}, {1, 3, 2.999f}), kInf);
}

TEST_F(AcceptMarginTest, EveryEmittedRowHasItsOwn) {
  AcceptFixture fixture(3, 1);
  fixture.Run(*backend_, {{.sampling = greedy_,
                           .logits = {{0, 2, 1.5f}, {4, 1, 3}, {0, 0, 1}},
                           .row_tokens = {0, 1, 2}}});
  EXPECT_EQ(fixture.emitted[0], 2);
  EXPECT_EQ(fixture.margins[0], 0.5f);
  EXPECT_EQ(fixture.margins[1], 1.0f);
}

}  // namespace
}  // namespace tandem
