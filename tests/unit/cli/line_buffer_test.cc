#include "services/cli/line_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(LineBufferTest, JoinsPiecesAndKeepsTheRest) {
  LineBuffer lines;
  EXPECT_THAT(lines.Append("on"), IsEmpty());
  EXPECT_THAT(lines.Append("e\n\ntwo\nthr"), ElementsAre("one", "", "two"));
  EXPECT_EQ(lines.Flush(), "thr");
  EXPECT_EQ(lines.Flush(), "");
}

TEST(LineBufferTest, CutsALineWithoutAnEnd) {
  LineBuffer lines;
  const std::string text(LineBuffer::kMaxLine + 1, 'x');
  EXPECT_THAT(lines.Append(text), ElementsAre(std::string(64 << 10, 'x')));
  EXPECT_EQ(lines.Flush(), "x");
}

}  // namespace
}  // namespace tandem::cli
