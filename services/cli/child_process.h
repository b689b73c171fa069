#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::cli {

// One child program in a process group of its own (a Ctrl-C at the terminal does not reach it),
// with stdout and stderr in one pipe. The kernel kills it when the thread that started it ends.
class ChildProcess final {
 public:
  // How it ended: an exit code, or the signal that ended it.
  struct Exit {
    int code = 0;
    int signal = 0;
    bool clean() const { return code == 0 && signal == 0; }
  };

  // `command`: program and arguments; the program is looked up in PATH when it has no slash. Needs
  // a process without other threads that hold locks, since it forks. A program that cannot be
  // executed shows as exit code 127.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& command);
  // Kills and reaps a child that still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable once the child has ended.
  int exit_fd() const { return exit_fd_; }
  // What it writes; not blocking.
  int output_fd() const { return output_fd_; }
  // No effect once it was reaped.
  void Signal(int signal) const;
  // Absent while it runs.
  std::optional<Exit> Reap();

 private:
  ChildProcess(pid_t pid, int exit_fd, int output_fd)
      : pid_(pid), exit_fd_(exit_fd), output_fd_(output_fd) {}
  pid_t pid_;
  int exit_fd_;
  int output_fd_;
  std::optional<Exit> exit_;
};

// "exit code 2", "signal 9 (Killed)".
std::string DescribeExit(const ChildProcess::Exit& exit);

}  // namespace tandem::cli
