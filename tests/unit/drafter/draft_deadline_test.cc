#include "services/verifier/draft_deadline.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

DraftDeadline Make() {
  return DraftDeadline({.floor_seconds = 0.01, .cold_seconds = 0.5, .cold_rounds = 3});
}

// `count` on-time rounds of `seconds` each, from step `first`.
void Feed(DraftDeadline& deadline, uint64_t first, int count, double seconds) {
  for (uint64_t s = first; s < first + count; ++s) {
    deadline.Published(s, 4, 2);
    deadline.Measured(s, seconds);
  }
}

TEST(DraftDeadlineTest, FirstRoundsGetTheColdAllowance) {
  DraftDeadline deadline = Make();
  deadline.Published(1, 4, 2);
  EXPECT_DOUBLE_EQ(deadline.Seconds(0, 1), 0.5);
  Feed(deadline, 1, 2, 0.002);
  EXPECT_DOUBLE_EQ(deadline.Seconds(2, 3), 0.5);
  Feed(deadline, 3, 1, 0.002);
  deadline.Published(4, 4, 2);
  EXPECT_DOUBLE_EQ(deadline.Seconds(3, 4), 3 * 0.002 + 0.01);
  deadline.Reset();
  EXPECT_DOUBLE_EQ(deadline.Seconds(3, 4), 0.5);
}

TEST(DraftDeadlineTest, MeanMovesSlowly) {
  DraftDeadline deadline = Make();
  Feed(deadline, 1, 4, 0.008);
  Feed(deadline, 5, 1, 0.016);
  deadline.Published(6, 4, 2);
  // 0.008 + (0.016 - 0.008) / 8
  EXPECT_DOUBLE_EQ(deadline.Seconds(5, 6), 3 * 0.009 + 0.01);
}

TEST(DraftDeadlineTest, UnansweredRoundsAddUp) {
  DraftDeadline deadline = Make();
  Feed(deadline, 1, 4, 0.002);
  deadline.Published(5, 4, 2);
  deadline.Published(6, 4, 2);
  EXPECT_DOUBLE_EQ(deadline.Seconds(4, 6), 3 * 2 * 0.002 + 0.01);
  EXPECT_DOUBLE_EQ(deadline.Seconds(6, 6), 0.01);
}

TEST(DraftDeadlineTest, LongLagIsBoundedByTheRing) {
  DraftDeadline deadline = Make();
  for (uint64_t s = 1; s <= 100; ++s) Feed(deadline, s, 1, 0.002);
  EXPECT_DOUBLE_EQ(deadline.Seconds(0, 100), 3 * ipc::kRing * 0.002 + 0.01);
}

TEST(DraftDeadlineTest, BigRoundsAreExpectedByTheirRows) {
  DraftDeadline deadline = Make();
  Feed(deadline, 1, 4, 0.002);
  deadline.Published(5, 100, 1);
  // Unknown yet: cold.
  EXPECT_DOUBLE_EQ(deadline.Seconds(4, 5), 3 * 0.002 + 0.5 + 0.01);
  deadline.Measured(5, 0.1);
  deadline.Published(6, 200, 1);
  EXPECT_DOUBLE_EQ(deadline.Seconds(5, 6), 3 * (0.002 + 200 * 0.001) + 0.01);
  // A decoding round is not expected to take longer for it.
  deadline.Published(7, 4, 2);
  EXPECT_DOUBLE_EQ(deadline.Seconds(6, 7), 3 * 0.002 + 0.01);
}

}  // namespace
}  // namespace tandem
