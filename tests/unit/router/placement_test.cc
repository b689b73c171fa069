#include "services/router/placement.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem {
namespace {

WorkerStanding Standing(uint32_t slots, uint32_t used, uint32_t queued = 0,
                        uint32_t unreported = 0) {
  return {.usable = true,
          .slots = slots,
          .slots_used = used,
          .queued = queued,
          .unreported = unreported};
}

TEST(Placement, NobodyIsUsable) {
  EXPECT_EQ(LeastLoaded({}), -1);
  EXPECT_EQ(LeastLoaded(std::vector<WorkerStanding>{{.slots = 8}}), -1);
}

TEST(Placement, TheSmallestShareOfSlotsWins) {
  EXPECT_EQ(LeastLoaded(std::vector{Standing(8, 4), Standing(8, 3), Standing(8, 5)}), 1);
  // 4 of 16 is less than 3 of 8.
  EXPECT_EQ(LeastLoaded(std::vector{Standing(8, 3), Standing(16, 4)}), 1);
}

TEST(Placement, QueueAndUnreportedRequestsCount) {
  EXPECT_EQ(LeastLoaded(std::vector{Standing(8, 2, 2), Standing(8, 3)}), 1);
  EXPECT_EQ(LeastLoaded(std::vector{Standing(8, 2, 0, 2), Standing(8, 3)}), 1);
}

TEST(Placement, EqualLoadTakesTheFirst) {
  EXPECT_EQ(LeastLoaded(std::vector{Standing(8, 2), Standing(8, 2)}), 0);
  EXPECT_EQ(LeastLoaded(std::vector{Standing(0, 0), Standing(0, 0)}), 0);
}

TEST(Placement, UnusableIsSkippedHoweverEmpty) {
  WorkerStanding empty = Standing(8, 0);
  empty.usable = false;
  EXPECT_EQ(LeastLoaded(std::vector{empty, Standing(8, 8, 3)}), 1);
}

}  // namespace
}  // namespace tandem
