#include "services/cli/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::cli {
namespace {

TEST(PercentileTest, InterpolatesBetweenClosestRanks) {
  // Ranks 0 to 3; p50 is rank 1.5, p90 rank 2.7, p99 rank 2.97.
  const std::vector<double> values = {40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(Percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(Percentile(values, 50), 25);
  EXPECT_DOUBLE_EQ(Percentile(values, 90), 37);
  EXPECT_DOUBLE_EQ(Percentile(values, 99), 39.7);
  EXPECT_DOUBLE_EQ(Percentile(values, 100), 40);
}

TEST(PercentileTest, OneValueIsEveryPercentileAndNoneIsNaN) {
  EXPECT_DOUBLE_EQ(Percentile({7.0}, 1), 7);
  EXPECT_DOUBLE_EQ(Percentile({7.0}, 99), 7);
  EXPECT_TRUE(std::isnan(Percentile({}, 50)));
}

v1::Usage MakeUsage(uint32_t generated, uint32_t rounds, std::vector<uint32_t> drafted,
                    std::vector<uint32_t> accepted) {
  v1::Usage usage;
  usage.set_generated_tokens(generated);
  usage.set_rounds(rounds);
  usage.mutable_drafted_by_depth()->Add(drafted.begin(), drafted.end());
  usage.mutable_accepted_by_depth()->Add(accepted.begin(), accepted.end());
  return usage;
}

TEST(DraftCountsTest, SumsRepliesOfDifferentDepth) {
  DraftCounts counts;
  counts.Add(MakeUsage(10, 4, {4, 3}, {3, 1}));
  counts.Add(MakeUsage(14, 6, {6, 5, 4}, {3, 2, 1}));
  EXPECT_DOUBLE_EQ(counts.TokensPerStep(), 2.4);
  EXPECT_THAT(counts.AcceptanceByDepth(), testing::ElementsAre(0.6, 0.375, 0.25));
}

TEST(DraftCountsTest, ADepthNeverDraftedAndNoStepsAreNaN) {
  DraftCounts counts;
  EXPECT_TRUE(std::isnan(counts.TokensPerStep()));
  counts.Add(MakeUsage(3, 3, {3, 0}, {0, 0}));
  const std::vector<double> acceptance = counts.AcceptanceByDepth();
  ASSERT_EQ(acceptance.size(), 2u);
  EXPECT_DOUBLE_EQ(acceptance[0], 0);
  EXPECT_TRUE(std::isnan(acceptance[1]));
}

}  // namespace
}  // namespace tandem::cli
