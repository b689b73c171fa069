#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "services/cli/supervisor.h"
#include "tests/unit/cli/supervisor_fixture.h"

namespace tandem::cli {
namespace {

using testing::HasSubstr;

using SupervisorStartTest = SupervisorFixture;

TEST_F(SupervisorStartTest, EachWaitsForTheOneBefore) {
  AddScript("first",
            "trap 'exit 0' TERM; sleep 0.3; echo ok > $READY; while :; do sleep 0.02; done");
  AddServer("second");
  options_.stop_order = {"second", "first"};
  const absl::Time begin = absl::Now();
  Start();
  ASSERT_TRUE(WaitForLog("second started"));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
  ASSERT_TRUE(WaitForLog("all ready"));
  Stop();
  EXPECT_TRUE(Join().ok());
}

TEST_F(SupervisorStartTest, ARefusalToStartEndsTheGroupWithItsReason) {
  AddServer("first");
  AddScript("second", "echo 'no such model' >&2; exit 2");
  options_.stop_order = {"second", "first"};
  Start();
  const absl::Status status = Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("second could not start (exit code 2): no such model"));
  EXPECT_GE(Position("first ended with exit code 0"), 0);
  EXPECT_EQ(Position("all ready"), -1);
}

TEST_F(SupervisorStartTest, ACrashAtTheStartIsNotTheUsersMistake) {
  AddScript("only", "kill -ABRT $$");
  options_.stop_order = {"only"};
  Start();
  const absl::Status status = Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("signal 6"));
}

TEST_F(SupervisorStartTest, AChildThatIsNeverReadyEndsTheGroup) {
  AddScript("slow", "echo still loading; while :; do sleep 0.02; done");
  options_.stop_order = {"slow"};
  options_.start_timeout = absl::Milliseconds(400);
  Start();
  const absl::Status status = Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("still loading"));
}

TEST_F(SupervisorStartTest, AStopDuringTheStartIsClean) {
  AddScript("slow", "exec sleep 100");
  options_.stop_order = {"slow"};
  Start();
  ASSERT_TRUE(WaitForLog("slow started"));
  Stop();
  const absl::Status status = Join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SupervisorStartTest, AnOldReadyFileDoesNotCount) {
  // Ready only after the second start, which finds no ready file of the first.
  AddScript("only",
            "trap 'exit 0' TERM; if [ -e $READY ]; then echo stale; fi; echo ok > $READY; "
            "while :; do sleep 0.02; done");
  options_.stop_order = {"only"};
  Start();
  ASSERT_EQ(kill(WaitForPid("only", 0), SIGKILL), 0);
  ASSERT_GT(WaitForPid("only", 1), 0);
  EXPECT_EQ(Position("only: stale"), -1);
  Stop();
  EXPECT_TRUE(Join().ok());
}

TEST_F(SupervisorStartTest, TextWithoutANewlineIsNotLost) {
  AddScript("only", "printf 'last words'; exit 1");
  options_.stop_order = {"only"};
  Start();
  EXPECT_THAT(std::string(Join().message()), HasSubstr("last words"));
}

}  // namespace
}  // namespace tandem::cli
