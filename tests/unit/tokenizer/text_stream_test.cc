#include "common/tokenizer/text_stream.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "common/tokenizer/prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Strings = std::vector<std::string>;

constexpr char kFffd[] = "\xEF\xBF\xBD";

TextStream MakeStream(const TextStream::Options& options = {}) {
  return *TextStream::Create(options);
}

struct Outcome {
  Strings texts;  // one per token pushed, the last one from Flush
  std::vector<int64_t> tokens;
  std::optional<TextStream::Stop> stop;

  std::string text() const {
    std::string all;
    for (const std::string& part : texts) all += part;
    return all;
  }
};

Outcome Feed(TextStream stream, const Strings& tokens) {
  Outcome outcome;
  const auto add = [&outcome](const TextStream::Piece& piece) {
    outcome.texts.push_back(piece.text);
    outcome.tokens.push_back(piece.tokens);
    if (piece.stop.has_value()) {
      EXPECT_FALSE(outcome.stop.has_value());
      outcome.stop = piece.stop;
    }
  };
  for (const std::string& token : tokens) add(stream.Push(token));
  add(stream.Flush());
  EXPECT_TRUE(stream.ended());
  return outcome;
}

TEST(TextStream, HoldsBackIncompleteCodePoints) {
  // "あ", then "😀" in three tokens.
  const Outcome outcome =
      Feed(MakeStream(), {"a\xE3\x81", "\x82\xF0", "\x9F\x98", "\x80!", "", "b"});
  EXPECT_EQ(outcome.texts, (Strings{"a", "あ", "", "😀!", "", "b", ""}));
  EXPECT_EQ(outcome.tokens, (std::vector<int64_t>{0, 1, 1, 4, 5, 6, 6}));
}

TEST(TextStream, ReplacesInvalidBytesAtOnce) {
  const std::string f = kFffd;
  const Outcome outcome = Feed(MakeStream(), {"\x80", "\xE3", "A", "\xF0\x9F", "\xE3", "\x81\x82"});
  EXPECT_EQ(outcome.texts, (Strings{f, "", f + "A", "", f, "あ", ""}));
  EXPECT_EQ(outcome.tokens, (std::vector<int64_t>{1, 1, 3, 3, 4, 6, 6}));
}

TEST(TextStream, FlushEndsAnIncompleteTail) {
  const Outcome outcome = Feed(MakeStream({.stops = {"xyz"}}), {"ax", "y\xF0\x9F\x98"});
  EXPECT_EQ(outcome.texts, (Strings{"a", "", std::string("xy") + kFffd}));
  EXPECT_EQ(outcome.tokens.back(), 2);
}

TEST(TextStream, HoldsBackOnlyWhatMayBecomeAStop) {
  const Outcome outcome = Feed(MakeStream({.stops = DefaultChatStops()}),
                               {"Hi.", "\n", "\n", "Us", "ual", "\nUse", "r"});
  EXPECT_EQ(outcome.texts, (Strings{"Hi.", "", "", "", "\n\nUsual", "", "", "\nUser"}));
  EXPECT_EQ(outcome.tokens, (std::vector<int64_t>{1, 1, 1, 1, 5, 5, 5, 7}));
}

TEST(TextStream, CutsAtTheStop) {
  const Outcome outcome = Feed(MakeStream({.stops = DefaultChatStops()}),
                               {"Hi", ".", "\n\n", "User", ":", " more", "!"});
  EXPECT_EQ(outcome.text(), "Hi.");
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->stop_index, 0);
  EXPECT_EQ(outcome.stop->tokens_before, 2);
  EXPECT_FALSE(outcome.stop->straddled);
  EXPECT_EQ(outcome.tokens, (std::vector<int64_t>{1, 2, 2, 2, 2, 2, 2, 2}));
}

// "。\n" is one token of the World vocabulary: the stop begins inside it.
TEST(TextStream, KeepsAStraddlingToken) {
  const Outcome outcome =
      Feed(MakeStream({.stops = DefaultChatStops()}), {"終", "。\n", "\n", "User", ":"});
  EXPECT_EQ(outcome.text(), "終。");
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->stop_index, 0);
  EXPECT_EQ(outcome.stop->tokens_before, 1);
  EXPECT_TRUE(outcome.stop->straddled);
  EXPECT_EQ(outcome.tokens.back(), 2);
}

TEST(TextStream, IncludesTheStopOnRequest) {
  const Outcome outcome =
      Feed(MakeStream({.stops = {"END"}, .include_stop = true}), {"aE", "N", "Dxy", "z"});
  EXPECT_EQ(outcome.text(), "aEND");
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->tokens_before, 0);
  EXPECT_TRUE(outcome.stop->straddled);  // "Dxy" goes on behind the cut
  EXPECT_EQ(outcome.tokens, (std::vector<int64_t>{0, 0, 3, 3, 3}));

  const Outcome whole =
      Feed(MakeStream({.stops = {"END"}, .include_stop = true}), {"a", "EN", "D"});
  EXPECT_FALSE(whole.stop->straddled);
  EXPECT_EQ(whole.stop->tokens_before, 1);
  EXPECT_EQ(whole.tokens, (std::vector<int64_t>{1, 1, 3, 3}));
}

TEST(TextStream, OverlappingStops) {
  const struct {
    Strings stops;
    std::string text;
    std::string expected;
    int stop_index;
  } cases[] = {
      {{"bcd", "c"}, "abcd", "ab", 1},                   // ends first
      {{"\nUser:", "\n\nUser:"}, "a\n\nUser:", "a", 1},  // same end: starts first
      {{"\n\nUser:", "\nUser:"}, "a\nUser:", "a", 1},    // only one of them
      {{"bc", "bc"}, "abc", "a", 0},                     // equal: list order
      {{"aab"}, "aaab", "a", 0},                         // a failed start overlaps the match
      {{"abcabd", "cab"}, "abcab", "ab", 1},             // inside a longer candidate
      {{"。\n\nUser:", "\n\nU"}, "終。\n\nUser:", "終。", 1},
      {{"\xEF\xBF\xBD"}, "a\xFFz", "a", 0},  // the decoded text is matched
  };
  for (const auto& expected : cases) {
    Strings bytes;
    for (const char c : expected.text) bytes.push_back(std::string(1, c));
    for (const Strings& tokens : {Strings{expected.text}, bytes}) {
      const Outcome outcome = Feed(MakeStream({.stops = expected.stops}), tokens);
      EXPECT_EQ(outcome.text(), expected.expected) << expected.text;
      ASSERT_TRUE(outcome.stop.has_value()) << expected.text;
      EXPECT_EQ(outcome.stop->stop_index, expected.stop_index) << expected.text;
    }
  }
}

// Several tokens arrive in one step; the stop may be complete after any of them, and nothing behind
// it may leak.
TEST(TextStream, StopEndsAtEveryOffsetOfABlock) {
  const std::string stop = "\n\nUser:";
  for (size_t block = 1; block <= 9; ++block) {
    for (size_t lead = 0; lead < block; ++lead) {
      Strings tokens(lead, "x");
      for (const char c : stop) tokens.push_back(std::string(1, c));
      const size_t end = tokens.size();
      while (tokens.size() % block != 0 || tokens.size() == end) tokens.push_back("leak");
      TextStream stream = MakeStream({.stops = {stop}});
      std::string text;
      for (size_t i = 0; i < tokens.size(); ++i) {
        const TextStream::Piece piece = stream.Push(tokens[i]);
        text += piece.text;
        ASSERT_EQ(piece.stop.has_value(), i + 1 == end) << block << " " << lead;
        ASSERT_EQ(stream.ended(), i + 1 >= end);
        ASSERT_EQ(piece.tokens, static_cast<int64_t>(std::min(i + 1, lead)));
      }
      ASSERT_EQ(text, std::string(lead, 'x'));
      ASSERT_EQ(stream.Flush().text, "");
    }
  }
}

TEST(TextStream, MinTokensDeclinesEarlyStops) {
  const Strings tokens = {"a", "b", "a", "b", "c", "a", "b"};
  const auto feed = [&](int64_t min_tokens) {
    return Feed(MakeStream({.stops = {"ab", "abc"}, .min_tokens = min_tokens}), tokens);
  };
  EXPECT_EQ(feed(0).text(), "");
  EXPECT_EQ(feed(1).text(), "");
  EXPECT_EQ(feed(2).text(), "ab");
  EXPECT_EQ(feed(3).stop->tokens_before, 2);
  EXPECT_EQ(feed(4).text(), "ab");  // "ab" is declined, "abc" ends at token 5
  EXPECT_EQ(feed(4).stop->stop_index, 1);
  EXPECT_EQ(feed(5).text(), "ababc");
  EXPECT_EQ(feed(6).stop->tokens_before, 5);
  EXPECT_EQ(feed(7).text(), "ababcab");
  EXPECT_FALSE(feed(7).stop.has_value());
}

TEST(TextStream, FlushMayCompleteAStop) {
  const Outcome outcome = Feed(MakeStream({.stops = {kFffd}}), {"a", "b\xE3"});
  EXPECT_EQ(outcome.text(), "ab");
  ASSERT_TRUE(outcome.stop.has_value());
  EXPECT_EQ(outcome.stop->tokens_before, 1);
  EXPECT_TRUE(outcome.stop->straddled);
}

TEST(TextStream, ACopyContinuesAlike) {
  TextStream stream = MakeStream({.stops = {"\n\nUser:"}});
  EXPECT_EQ(stream.Push("a\n\nUs").text, "a");
  TextStream copy = stream;
  EXPECT_TRUE(stream.Push("er:").stop.has_value());
  EXPECT_EQ(copy.Push("age\xE3\x81").text, "\n\nUsage");
  TextStream tail = copy;
  EXPECT_EQ(copy.Push("\x82").text, "あ");
  EXPECT_EQ(tail.Flush().text, kFffd);
}

TEST(TextStream, RefusesBadOptions) {
  EXPECT_THAT(TextStream::Create({.stops = {"a", ""}}).status().ToString(),
              HasSubstr("INVALID_ARGUMENT: stop text 1 is empty"));
  EXPECT_THAT(TextStream::Create({.min_tokens = -1}).status().ToString(),
              HasSubstr("INVALID_ARGUMENT: min_tokens is -1"));
}

// Holds back a third of a million bytes for a million tokens; work per token that grows with what
// is held or was delivered would not end within the time limit of this test.
TEST(TextStream, TimeIsLinear) {
  const std::string stop = std::string(333333, 'a') + "b";
  TextStream stream = MakeStream({.stops = {stop}});
  size_t delivered = 0;
  for (int i = 0; i < 1000000; ++i) delivered += stream.Push("a").text.size();
  EXPECT_EQ(delivered, 1000000u - 333333u);
  EXPECT_EQ(stream.Push("b").stop->tokens_before, 1000000 - 333333);
}

}  // namespace
}  // namespace tandem
