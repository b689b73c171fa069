#include "services/cli/restart_delay.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

TEST(RestartDelayTest, DoublesToTenSeconds) {
  RestartDelay delay;
  for (const double seconds : {0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0}) {
    EXPECT_EQ(delay.Next(absl::Seconds(1)), absl::Seconds(seconds));
  }
}

TEST(RestartDelayTest, StartsAnewAfterAHealthyLife) {
  RestartDelay delay;
  delay.Next(absl::ZeroDuration());
  delay.Next(absl::ZeroDuration());
  EXPECT_EQ(delay.Next(absl::Seconds(29)), absl::Milliseconds(800));
  EXPECT_EQ(delay.Next(absl::Seconds(30)), absl::Milliseconds(200));
  EXPECT_EQ(delay.Next(absl::Seconds(1)), absl::Milliseconds(400));
}

}  // namespace
}  // namespace tandem::cli
