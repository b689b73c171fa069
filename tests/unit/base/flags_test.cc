#include "common/base/flags.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Flags, RangesIncludeTheirEnds) {
  EXPECT_TRUE(CheckFlag("max_sessions", 1, 1, 9).ok());
  EXPECT_TRUE(CheckFlag("max_sessions", 9, 1, 9).ok());
  for (const int64_t value : {0, 10}) {
    const absl::Status status = CheckFlag("max_sessions", value, 1, 9);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("--max-sessions="), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find("from 1 to 9"), absl::string_view::npos) << status;
  }
}

TEST(Flags, TimeoutsAreAboveZero) {
  EXPECT_TRUE(CheckPositive("drain_timeout", absl::Milliseconds(1)).ok());
  EXPECT_FALSE(CheckPositive("drain_timeout", absl::ZeroDuration()).ok());
  EXPECT_FALSE(CheckPositive("drain_timeout", absl::Seconds(-1)).ok());
}

}  // namespace
}  // namespace tandem
