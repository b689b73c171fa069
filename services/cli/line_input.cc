#include "services/cli/line_input.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/file.h"

namespace tandem::cli {

absl::StatusOr<LineInput> LineInput::Create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) return ErrnoStatus(errno, "cannot make a signalfd");
  return LineInput(fd);
}

LineInput::LineInput(LineInput&& other) noexcept
    : interrupt_fd_(std::exchange(other.interrupt_fd_, -1)), buffer_(std::move(other.buffer_)) {}

LineInput::~LineInput() {
  if (interrupt_fd_ >= 0) close(interrupt_fd_);
}

void LineInput::TakeInterrupt() {
  signalfd_siginfo info;
  // Not blocking: nothing to take is fine.
  while (read(interrupt_fd_, &info, sizeof(info)) > 0) continue;
}

std::optional<std::string> LineInput::Read() {
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
                     {.fd = interrupt_fd_, .events = POLLIN, .revents = 0}};
    if (poll(fds, 2, -1) < 0) return std::nullopt;
    if (fds[1].revents != 0) {
      TakeInterrupt();
      return std::nullopt;
    }
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n > 0) {
      buffer_.append(bytes, static_cast<size_t>(n));
    } else if (buffer_.empty()) {
      return std::nullopt;
    } else {
      return std::exchange(buffer_, {});
    }
  }
}

}  // namespace tandem::cli
