#include "common/tokenizer/think_splitter.h"

#include <string>

#include "gtest/gtest.h"

namespace tandem {
namespace {

struct SplitCase {
  ThinkMode mode;
  std::string text;
  std::string reasoning;
  std::string answer;
};

// Cuts the text into two pieces at `cut` and the second one into single bytes.
void ExpectSplit(const SplitCase& expected, size_t cut) {
  ThinkSplitter splitter(expected.mode);
  std::string reasoning, answer;
  const auto add = [&](const ThinkSplitter::Piece& piece) {
    reasoning += piece.reasoning;
    answer += piece.answer;
  };
  add(splitter.Push(expected.text.substr(0, cut)));
  for (size_t i = cut; i < expected.text.size(); ++i)
    add(splitter.Push(expected.text.substr(i, 1)));
  add(splitter.Flush());
  EXPECT_EQ(reasoning, expected.reasoning) << expected.text << " cut at " << cut;
  EXPECT_EQ(answer, expected.answer) << expected.text << " cut at " << cut;
}

TEST(ThinkSplitter, SplitsHoweverTheTextIsCut) {
  const SplitCase cases[] = {
      {ThinkMode::kOff, "", "", ""},
      {ThinkMode::kOff, " Hello > all", "", "Hello > all"},
      {ThinkMode::kOff, "  two", "", " two"},
      {ThinkMode::kOff, "none", "", "none"},
      {ThinkMode::kOff, ">x</think>y", "", ">x</think>y"},
      {ThinkMode::kOn, ">\nso 1 > 0\n</think> yes", "\nso 1 > 0\n", "yes"},
      {ThinkMode::kOn, "></think>x", "", "x"},
      {ThinkMode::kOn, ">a</think>\nb", "a", "\nb"},
      {ThinkMode::kOn, "no marker end</think> b", "no marker end", "b"},
      {ThinkMode::kOn, ">>a</think>b", ">a", "b"},
      {ThinkMode::kOn, ">a<b <</think</think> c</think>", "a<b <</think", "c</think>"},
      {ThinkMode::kOn, ">a</thi", "a</thi", ""},
      {ThinkMode::kOn, ">a</think>", "a", ""},
      {ThinkMode::kOn, ">", "", ""},
      {ThinkMode::kFake, "> yes > no", "", "yes > no"},
      {ThinkMode::kFake, ">\nyes", "", "\nyes"},
      {ThinkMode::kFake, " yes", "", "yes"},
      {ThinkMode::kFake, ">yes</think>", "", "yes</think>"},
  };
  for (const SplitCase& expected : cases) {
    for (size_t cut = 0; cut <= expected.text.size(); ++cut) ExpectSplit(expected, cut);
  }
}

TEST(ThinkSplitter, HoldsBackOnlyAPossibleMarker) {
  ThinkSplitter splitter(ThinkMode::kOn);
  EXPECT_EQ(splitter.Push(">abc</thin").reasoning, "abc");
  EXPECT_EQ(splitter.Push("g").reasoning, "</thing");
  ThinkSplitter copy = splitter;
  EXPECT_EQ(copy.Push("</think> x").answer, "x");
  EXPECT_EQ(splitter.Push("y").reasoning, "y");
}

}  // namespace
}  // namespace tandem
