#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "services/cli/supervisor.h"
#include "tests/unit/cli/supervisor_fixture.h"

namespace tandem::cli {
namespace {

// The second of two starts of a child.
constexpr size_t kAgain = 1;

class SupervisorTiedTest : public SupervisorFixture {
 protected:
  // A verifier, a drafter that does `at_term` when it is asked to end, and a router.
  void StartTied(const std::string& at_term) {
    AddServer("verifier");
    AddScript("drafter", absl::StrCat("trap '", at_term, "' TERM; echo ok > $READY.tmp; ",
                                      "mv $READY.tmp $READY; while :; do sleep 0.02; done"));
    AddServer("router");
    options_.stop_order = {"router", "verifier", "drafter"};
    options_.tied = {"verifier", "drafter"};
    options_.before_kill = [this](absl::string_view name, pid_t pid) {
      killed_.push_back(absl::StrCat(name, " ", pid));
    };
    Start();
    ASSERT_TRUE(WaitForLog("all ready"));
  }
  // Of the last log entry that holds `text`, or -1.
  int LastPosition(const std::string& text) {
    const std::vector<std::string> entries = log();
    for (size_t i = entries.size(); i > 0; --i) {
      if (entries[i - 1].find(text) != std::string::npos) return static_cast<int>(i) - 1;
    }
    return -1;
  }

  std::vector<std::string> killed_;  // of the supervisor's thread
};

TEST_F(SupervisorTiedTest, BothEndBeforeOneStartsAgain) {
  StartTied("sleep 0.6; exit 0");
  ASSERT_EQ(kill(WaitForPid("verifier", 0), SIGKILL), 0);
  ASSERT_GT(WaitForPid("verifier", kAgain), 0);
  ASSERT_GT(WaitForPid("drafter", kAgain), 0);
  const int ended = Position("drafter ended with exit code 0");
  EXPECT_GE(ended, 0);
  EXPECT_LT(ended, LastPosition("verifier started"));
  EXPECT_LT(ended, LastPosition("drafter started"));
  EXPECT_EQ(Position("router ended"), -1);
  Stop();
  EXPECT_TRUE(Join().ok());
  EXPECT_THAT(killed_, testing::IsEmpty());
}

TEST_F(SupervisorTiedTest, TheSecondDiesAlone) {
  StartTied("exit 0");
  ASSERT_EQ(kill(WaitForPid("drafter", 0), SIGKILL), 0);
  ASSERT_GT(WaitForPid("drafter", kAgain), 0);
  EXPECT_EQ(Position("verifier ended"), -1);
  Stop();
  EXPECT_TRUE(Join().ok());
}

TEST_F(SupervisorTiedTest, OneThatStaysIsKilled) {
  options_.tied_limit = absl::Milliseconds(300);
  // Also at the end, where it has more time.
  options_.stop_timeout = absl::Milliseconds(300);
  StartTied("");
  const pid_t drafter = WaitForPid("drafter", 0);
  ASSERT_EQ(kill(WaitForPid("verifier", 0), SIGKILL), 0);
  ASSERT_GT(WaitForPid("drafter", kAgain), 0);
  EXPECT_GE(Position("drafter ended with signal 9"), 0);
  Stop();
  EXPECT_EQ(Join().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(killed_, testing::ElementsAre(absl::StrCat("drafter ", drafter),
                                            testing::StartsWith("drafter ")));
}

TEST_F(SupervisorTiedTest, BothStartAnewOnANewGround) {
  int ground[2];
  ASSERT_EQ(pipe2(ground, O_CLOEXEC), 0);
  std::atomic<int> renewed = 0;
  options_.ground_fd = [&] { return renewed == 0 ? ground[0] : -1; };
  options_.renew_ground = [&] {
    ++renewed;
    return absl::OkStatus();
  };
  StartTied("");
  // Its end of file makes the other end readable.
  close(ground[1]);
  ASSERT_GT(WaitForPid("verifier", kAgain), 0);
  ASSERT_GT(WaitForPid("drafter", kAgain), 0);
  EXPECT_EQ(renewed, 1);
  EXPECT_EQ(Position("router ended"), -1);
  options_.stop_timeout = absl::Milliseconds(300);
  ASSERT_EQ(kill(WaitForPid("drafter", kAgain), SIGKILL), 0);
  Stop();
  EXPECT_TRUE(Join().ok());
  close(ground[0]);
}

TEST_F(SupervisorTiedTest, AGroundThatCannotBeRenewedEndsTheGroup) {
  int ground[2];
  ASSERT_EQ(pipe2(ground, O_CLOEXEC), 0);
  options_.ground_fd = [&] { return ground[0]; };
  options_.renew_ground = [] { return absl::UnavailableError("no ground"); };
  StartTied("exit 0");
  close(ground[1]);
  EXPECT_EQ(Join(), absl::UnavailableError("no ground"));
  EXPECT_GE(Position("router ended with exit code 0"), 0);
  close(ground[0]);
}

}  // namespace
}  // namespace tandem::cli
