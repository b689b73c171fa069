#include "services/cli/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>

#include "tests/unit/cli/supervisor_fixture.h"

namespace tandem::cli {
namespace {

using testing::Contains;
using testing::HasSubstr;

class SupervisorTest : public SupervisorFixture {
 protected:
  void StartThree() {
    for (const char* name : {"verifier", "drafter", "router"}) AddServer(name);
    options_.stop_order = {"router", "verifier", "drafter"};
    Start();
    ASSERT_TRUE(WaitForLog("all ready"));
  }
};

bool Gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

TEST_F(SupervisorTest, StopsInOrderAndLeavesNoProcess) {
  StartThree();
  std::vector<pid_t> pids;
  for (const char* name : {"verifier", "drafter", "router"}) pids.push_back(WaitForPid(name, 0));
  Stop();
  const absl::Status status = Join();
  EXPECT_TRUE(status.ok()) << status;
  for (const pid_t pid : pids) EXPECT_TRUE(Gone(pid)) << pid;
  // Each is asked only when the one before has ended.
  EXPECT_LT(Position("router asked to end"), Position("router ended with exit code 0"));
  EXPECT_LT(Position("router ended with exit code 0"), Position("verifier asked to end"));
  EXPECT_LT(Position("verifier ended with exit code 0"), Position("drafter asked to end"));
  EXPECT_GE(Position("drafter ended with exit code 0"), 0);
  EXPECT_THAT(log(), Contains("verifier: hello"));
  EXPECT_THAT(log(), Contains("verifier: bye"));
}

TEST_F(SupervisorTest, RestartsAChildWithABackOffThatGrows) {
  StartThree();
  for (size_t death = 0; death < 3; ++death) {
    const pid_t pid = WaitForPid("drafter", death);
    ASSERT_GT(pid, 0);
    const absl::Time killed = absl::Now();
    ASSERT_EQ(kill(pid, SIGKILL), 0);
    ASSERT_GT(WaitForPid("drafter", death + 1), 0);
    EXPECT_GE(absl::Now() - killed, absl::Milliseconds(200) * (1 << death)) << death;
  }
  for (const char* delay : {"200ms", "400ms", "800ms"}) {
    EXPECT_GE(
        Position(absl::StrCat("drafter ended with signal 9 (Killed), starts again in ", delay)), 0);
  }
  // The others were left alone.
  EXPECT_EQ(Position("router ended"), -1);
  EXPECT_EQ(Position("verifier ended"), -1);
  Stop();
  EXPECT_TRUE(Join().ok());
}

TEST_F(SupervisorTest, StopsWhileAChildWaitsForItsRestart) {
  StartThree();
  ASSERT_EQ(kill(WaitForPid("verifier", 0), SIGKILL), 0);
  ASSERT_TRUE(WaitForLog("verifier ended with signal 9"));
  Stop();
  EXPECT_TRUE(Join().ok());
  EXPECT_EQ(Position("verifier asked to end"), -1);
  EXPECT_GE(Position("drafter ended with exit code 0"), 0);
}

TEST_F(SupervisorTest, KillsAChildThatDoesNotEndInTime) {
  AddScript("stubborn", "trap '' TERM; echo ok > $READY; while :; do sleep 0.02; done");
  options_.stop_order = {"stubborn"};
  options_.stop_timeout = absl::Milliseconds(300);
  Start();
  const pid_t pid = WaitForPid("stubborn", 0);
  Stop();
  const absl::Status status = Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stubborn was killed"));
  EXPECT_TRUE(Gone(pid));
}

TEST_F(SupervisorTest, ASecondStopKillsAtOnce) {
  AddScript("stubborn", "trap '' TERM; echo ok > $READY; while :; do sleep 0.02; done");
  options_.stop_order = {"stubborn"};
  options_.stop_timeout = absl::Minutes(10);
  Start();
  ASSERT_GT(WaitForPid("stubborn", 0), 0);
  Stop();
  ASSERT_TRUE(WaitForLog("stubborn asked to end"));
  Stop();
  EXPECT_EQ(Join().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SupervisorTest, ABadEndIsReported) {
  AddScript("weak",
            "trap 'echo cannot save; exit 5' TERM; echo ok > $READY; "
            "while :; do sleep 0.02; done");
  options_.stop_order = {"weak"};
  Start();
  ASSERT_GT(WaitForPid("weak", 0), 0);
  Stop();
  const absl::Status status = Join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("exit code 5"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot save"));
}

}  // namespace
}  // namespace tandem::cli
