#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/accept/cut.h"
#include "kernels/accept/exp_sum.h"
#include "kernels/accept/gumbel.h"
#include "kernels/accept/log.h"
#include "kernels/accept/weight.h"

namespace tandem {
namespace {

TEST(LogTest, CloseToTheLibrary) {
  std::mt19937_64 random(1);
  std::vector<double> values = {1.0, 2.0, 0.5, 0x1p-33, 22.9, 1e-300, 1e300, std::sqrt(0.5)};
  for (int i = 0; i < 200000; ++i) {
    values.push_back(static_cast<double>(random() >> 11) * 0x1p-53 + 0x1p-54);
    values.push_back(1.0 + static_cast<double>(static_cast<int64_t>(random() >> 12)) * 0x1p-54);
    values.push_back(std::ldexp(values.back(), static_cast<int>(random() % 2000) - 1000));
  }
  for (const double x : values) {
    const double expected = std::log(x);
    EXPECT_LE(std::abs(Log(x) - expected), 5e-16 * std::abs(expected)) << x;
  }
  EXPECT_EQ(Log(1.0), 0.0);
}

TEST(LogTest, GumbelAtTheEnds) {
  EXPECT_NEAR(Gumbel(0), -std::log(-std::log(0x1p-33)), 1e-6);
  EXPECT_NEAR(Gumbel(0xFFFFFFFFu), 33 * std::log(2.0), 1e-5);
  EXPECT_LE(Gumbel(0xFFFFFFFFu), kGumbelMax);
}

// Where a unit is no more than the last bit of a weight, a sum of one term shows the vector code's
// bits.
TEST(WeightTest, ExpHasTheBitsOfTheVectorCode) {
  for (int i = -11 * 65536; i < 15 * 65536; ++i) {
    const float x = static_cast<float>(i) / 65536.0f + 1e-6f;
    ASSERT_EQ(Units(Exp(x)), ExpSum(&x, 1, 0.0f)) << x;
  }
}

TEST(WeightTest, ExpIsCloseAndAtMostOneBelowZero) {
  for (float x = 0.0f; x > -87.0f; x -= 1e-4f) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(Exp(x), expected, 3e-7 * expected) << x;
    ASSERT_LE(Exp(x), 1.0f) << x;
  }
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-1e30f), Exp(-87.0f));
}

TEST(WeightTest, UnitsNeededIsTheSmallestThatReaches) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100000; ++i) {
    const uint64_t total = (random() >> (8 + random() % 16)) + (uint64_t{1} << 40);
    const float top_p = static_cast<float>(random() % 16777215 + 1) * 0x1p-24f;
    const uint64_t needed = UnitsNeeded(top_p, total);
    const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
    EXPECT_EQ(needed, static_cast<uint64_t>(std::ceil(wanted)));
    EXPECT_GE(needed, 1u);
    EXPECT_LE(needed, total);
  }
}

// The rank below which nothing weighs enough is no tighter than the weights themselves.
TEST(CutTest, LowestRankHoldsBack) {
  for (float x = 0.0f; x > -86.0f; x -= 1e-3f)
    ASSERT_LT(LowestRank(Exp(x)), RankKey(x, 0xFFFFFFFFu)) << x;
}

}  // namespace
}  // namespace tandem
