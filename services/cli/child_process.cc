#include "services/cli/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace tandem::cli {
namespace {

// Runs in the child, between fork and exec: only calls that are safe there.
[[noreturn]] void Exec(char* const* arguments, int output, pid_t parent) {
  // The death signal is not sent for a parent that ended before prctl.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(127);
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments);
  constexpr char kMessage[] = " cannot be executed\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, arguments[0], strlen(arguments[0]));
  n = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& command) {
  std::vector<std::string> copies = command;
  std::vector<char*> arguments;
  for (std::string& copy : copies) arguments.push_back(copy.data());
  arguments.push_back(nullptr);

  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Exec(arguments.data(), pipe_fds[1], parent);
  const int fork_error = errno;
  close(pipe_fds[1]);
  if (pid < 0) {
    close(pipe_fds[0]);
    return ErrnoStatus(fork_error, absl::StrCat("cannot start ", command[0]));
  }
  fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK);
  // Close-on-exec by definition; cannot refer to another process, since the child is not reaped.
  const int exit_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess(pid, exit_fd, pipe_fds[0]));
  if (exit_fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot watch ", command[0]));
  return child;
}

ChildProcess::~ChildProcess() {
  if (!exit_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (exit_fd_ >= 0) close(exit_fd_);
  close(output_fd_);
}

void ChildProcess::Signal(int signal) const {
  if (!exit_) kill(pid_, signal);
}

std::optional<ChildProcess::Exit> ChildProcess::Reap() {
  int status = 0;
  if (exit_ || waitpid(pid_, &status, WNOHANG) != pid_) return exit_;
  exit_ =
      WIFSIGNALED(status) ? Exit{.signal = WTERMSIG(status)} : Exit{.code = WEXITSTATUS(status)};
  return exit_;
}

std::string DescribeExit(const ChildProcess::Exit& exit) {
  if (exit.signal == 0) return absl::StrCat("exit code ", exit.code);
  return absl::StrCat("signal ", exit.signal, " (", strsignal(exit.signal), ")");
}

}  // namespace tandem::cli
