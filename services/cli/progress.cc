#include "services/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>

#include "absl/strings/str_cat.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

constexpr char kRewrite[] = "\r\x1b[K";

// Columns of the terminal; 80 where it does not say.
size_t Width(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {}

void Progress::Show(absl::string_view text, absl::Duration now) {
  if (terminal_) {
    // The last column stays free: some terminals wrap behind it.
    WriteAll(fd_, absl::StrCat(kRewrite, text.substr(0, Width(fd_) - 1)));
  } else if (now >= next_) {
    next_ = now + kInterval;
    WriteAll(fd_, absl::StrCat(text, "\n"));
  }
}

void Progress::Show(absl::string_view text) {
  Show(text, absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
}

void Progress::End() {
  if (terminal_) WriteAll(fd_, kRewrite);
}

}  // namespace tandem::cli
