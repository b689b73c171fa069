#include "services/cli/progress.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"

namespace tandem::cli {
namespace {

std::string ReadOnce(int fd) {
  char text[4096];
  const ssize_t n = read(fd, text, sizeof(text));
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

TEST(ProgressTest, AFileGetsALineEveryTenSeconds) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  Progress progress(fds[1]);
  // Every 0.1 s from 0 to 24.9 s.
  for (int i = 0; i < 250; ++i) {
    progress.Show(std::to_string(i), absl::Milliseconds(100) * i);
  }
  progress.End();
  close(fds[1]);
  EXPECT_EQ(ReadOnce(fds[0]), "0\n100\n200\n");
  close(fds[0]);
}

TEST(ProgressTest, ATerminalGetsOneLineThatDoesNotWrap) {
  int outside = -1, inside = -1;
  winsize size = {.ws_row = 24, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(openpty(&outside, &inside, nullptr, nullptr, &size), 0);
  Progress progress(inside);
  progress.Show(std::string(100, 'a'), absl::ZeroDuration());
  progress.Show("b", absl::ZeroDuration());
  progress.End();
  const std::string rewrite = "\r\x1b[K";
  const std::string expected = rewrite + std::string(39, 'a') + rewrite + "b" + rewrite;
  std::string shown;
  // A terminal hands over what it has; there is as much as was written.
  while (shown.size() < expected.size()) {
    const std::string more = ReadOnce(outside);
    ASSERT_FALSE(more.empty()) << shown;
    shown += more;
  }
  EXPECT_EQ(shown, expected);
  close(inside);
  close(outside);
}

}  // namespace
}  // namespace tandem::cli
