#include "common/base/log.h"

#include <gmock/gmock.h>

#include "common/base/check.h"

namespace tandem {
namespace {

TEST(Log, WritesOneLineWithLevelNameAndPlace) {
  SetLogName("tester");
  ::testing::internal::CaptureStderr();
  LOG(WARNING) << "slots " << 3;
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::MatchesRegex("[0-9T:.-]+Z WARNING tester log_test.cc:[0-9]+\\] slots 3\n"));
}

TEST(CheckDeathTest, NamesConditionAndValues) {
  const int slots = 3;
  EXPECT_DEATH(CHECK_EQ(slots, 4) << "leak", "CHECK failed: \\(slots\\) == \\(4\\) 3 vs 4 leak");
  CHECK(slots == 3) << "not reached";
}

}  // namespace
}  // namespace tandem
