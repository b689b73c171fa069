#include "services/cli/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/time/clock.h"

namespace tandem::cli {
namespace {

ChildProcess::Exit WaitForExit(ChildProcess& child) {
  pollfd fd = {.fd = child.exit_fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&fd, 1, 10000), 1);
  const auto exit = child.Reap();
  EXPECT_TRUE(exit.has_value());
  return exit.value_or(ChildProcess::Exit{.code = -1});
}

bool Exists(pid_t pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

TEST(ChildProcessTest, ReportsExitCodesAndSignals) {
  auto child = *ChildProcess::Start({"bash", "-c", "exit 3"});
  EXPECT_EQ(WaitForExit(*child).code, 3);
  child = *ChildProcess::Start({"sleep", "100"});
  EXPECT_FALSE(child->Reap().has_value());
  child->Signal(SIGTERM);
  const ChildProcess::Exit exit = WaitForExit(*child);
  EXPECT_EQ(exit.signal, SIGTERM);
  EXPECT_FALSE(exit.clean());
  EXPECT_EQ(DescribeExit(exit), "signal 15 (Terminated)");
  EXPECT_EQ(DescribeExit({.code = 2}), "exit code 2");
}

TEST(ChildProcessTest, AProgramThatIsNotThereIsExitCode127) {
  auto child = *ChildProcess::Start({"/nowhere/program"});
  EXPECT_EQ(WaitForExit(*child).code, 127);
}

TEST(ChildProcessTest, StdoutAndStderrComeInOnePipe) {
  auto child = *ChildProcess::Start({"bash", "-c", "echo out; echo err >&2"});
  WaitForExit(*child);
  char text[64];
  const ssize_t n = read(child->output_fd(), text, sizeof(text));
  EXPECT_EQ(std::string(text, n > 0 ? n : 0), "out\nerr\n");
}

TEST(ChildProcessTest, LeadsItsOwnProcessGroup) {
  auto child = *ChildProcess::Start({"bash", "-c", "echo $(ps -o pgid= $$); sleep 100"});
  pollfd fd = {.fd = child->output_fd(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&fd, 1, 10000), 1);
  char text[64] = {};
  ASSERT_GT(read(child->output_fd(), text, sizeof(text) - 1), 0);
  EXPECT_EQ(atoi(text), child->pid());
}

TEST(ChildProcessTest, TheDestructorLeavesNothingBehind) {
  auto child = *ChildProcess::Start({"sleep", "100"});
  const pid_t pid = child->pid();
  EXPECT_TRUE(Exists(pid));
  child = nullptr;
  EXPECT_FALSE(Exists(pid));
}

TEST(ChildProcessTest, DiesWithAParentThatIsKilled) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const auto child = ChildProcess::Start({"sleep", "100"});
    const pid_t pid = child.ok() ? (*child)->pid() : 0;
    [[maybe_unused]] const ssize_t n = write(fds[1], &pid, sizeof(pid));
    for (;;) pause();
  }
  pid_t pid = 0;
  ASSERT_EQ(read(fds[0], &pid, sizeof(pid)), static_cast<ssize_t>(sizeof(pid)));
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(Exists(pid));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Whoever inherits it reaps it; a zombie has ended too.
  const std::string stat_path = "/proc/" + std::to_string(pid) + "/stat";
  bool ended = false;
  for (int i = 0; i < 500 && !ended; ++i) {
    std::FILE* stat = std::fopen(stat_path.c_str(), "r");
    char state = 'Z';
    if (stat != nullptr) {
      if (std::fscanf(stat, "%*d %*s %c", &state) != 1) state = 'Z';
      std::fclose(stat);
    }
    ended = state == 'Z' || state == 'X';
    if (!ended) absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(ended);
  close(fds[0]);
  close(fds[1]);
}

}  // namespace
}  // namespace tandem::cli
