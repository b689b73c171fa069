#include "services/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tandem::cli {
namespace {

TEST(TerminalTest, PaintsOnlyWhereWanted) {
  EXPECT_EQ(Paint(Colour::kGreen, "x", true), "\x1b[32mx\x1b[0m");
  EXPECT_EQ(Paint(Colour::kGreen, "x", false), "x");
  EXPECT_EQ(Paint(Colour::kNone, "x", true), "x");
  EXPECT_EQ(Paint(Colour::kGreen, "", true), "");
}

TEST(TerminalTest, AutoIsOffForAPipe) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  EXPECT_FALSE(UseColour("auto", fds[1]));
  EXPECT_TRUE(UseColour("always", fds[1]));
  EXPECT_FALSE(UseColour("never", fds[1]));
  WriteAll(fds[1], "hello");
  close(fds[1]);
  char text[16];
  EXPECT_EQ(read(fds[0], text, sizeof(text)), 5);
  close(fds[0]);
}

}  // namespace
}  // namespace tandem::cli
