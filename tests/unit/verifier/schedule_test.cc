#include "services/verifier/schedule.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(DraftSchedule, FirstEntryWhoseLimitHoldsApplies) {
  const DraftSchedule schedule = *DraftSchedule::Parse("4:3,16:2,0:0");
  const std::vector<std::pair<int, int>> expected = {{1, 3},  {4, 3},  {5, 2},
                                                     {16, 2}, {17, 0}, {1000, 0}};
  for (const auto& [lanes, drafts] : expected) {
    EXPECT_EQ(schedule.DraftsFor(lanes), drafts) << lanes;
  }
}

TEST(DraftSchedule, NoEntryMeansPlainDecoding) {
  EXPECT_EQ(DraftSchedule::Parse("2:8")->DraftsFor(3), 0);
  EXPECT_EQ(DraftSchedule::Parse("2:8")->DraftsFor(2), 8);
  EXPECT_EQ(DraftSchedule::Parse("0:5")->DraftsFor(1), 5);
  EXPECT_EQ(DraftSchedule().DraftsFor(1), 0);
}

TEST(DraftSchedule, RefusesWhatIsNoScheduleAndNamesTheEntry) {
  for (const char* text :
       {"", "4", "4:3,", ",4:3", "4:3,,0:0", "a:3", "4:b", "-1:3", "4:-3", "4:3:2", "4: 3", "4:9",
        "0:1,4:3", "0:1,0:0", "4:3,4:2", "16:2,4:3", "99999999999:1"}) {
    const auto parsed = DraftSchedule::Parse(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(parsed.status().message()).find("entry \""), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
