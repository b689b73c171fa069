#include "common/tokenizer/stop_matcher.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::string RandomString(std::mt19937& random, size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = "abc"[random() % 3];
  return text;
}

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

TEST(StopMatcher, AgreesWithPlainSearchAtEveryByte) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> stops(random() % 5);
    for (std::string& stop : stops) stop = RandomString(random, 1 + random() % 4);
    const absl::StatusOr<StopMatcher> matcher = StopMatcher::Create(stops);
    ASSERT_TRUE(matcher.ok());
    const std::string text = RandomString(random, 60);
    int position = StopMatcher::kStart;
    for (size_t end = 1; end <= text.size(); ++end) {
      position = matcher->Advance(position, static_cast<uint8_t>(text[end - 1]));
      int match = StopMatcher::kNone;
      size_t depth = 0;
      for (size_t i = 0; i < stops.size(); ++i) {
        for (size_t size = 1; size <= stops[i].size(); ++size) {
          if (EndsWith(text.substr(0, end), stops[i].substr(0, size)))
            depth = std::max(depth, size);
        }
        if (EndsWith(text.substr(0, end), stops[i]) &&
            (match == StopMatcher::kNone || stops[i].size() > stops[match].size())) {
          match = static_cast<int>(i);
        }
      }
      ASSERT_EQ(matcher->Match(position), match);
      ASSERT_EQ(matcher->Depth(position), depth);
    }
  }
}

TEST(StopMatcher, DeclineLeavesProperPrefixes) {
  const absl::StatusOr<StopMatcher> matcher =
      StopMatcher::Create(std::vector<std::string>{"aba", "ab", "bc"});
  ASSERT_TRUE(matcher.ok());
  const auto after = [&](const std::string& text) {
    int position = StopMatcher::kStart;
    for (const char c : text) position = matcher->Advance(position, static_cast<uint8_t>(c));
    return position;
  };
  EXPECT_EQ(matcher->Match(after("ab")), 1);
  EXPECT_EQ(matcher->Depth(matcher->Decline(after("ab"))), 2u);   // may become "aba"
  EXPECT_EQ(matcher->Depth(matcher->Decline(after("aba"))), 1u);  // "a" may open either
  EXPECT_EQ(matcher->Depth(matcher->Decline(after("bc"))), 0u);
  EXPECT_EQ(matcher->StopSize(0), 3u);
}

TEST(StopMatcher, RefusesEmptyAndInvalidTexts) {
  const auto error = [](const std::vector<std::string>& stops) {
    return StopMatcher::Create(stops).status().ToString();
  };
  EXPECT_THAT(error({"a", ""}), HasSubstr("INVALID_ARGUMENT: stop text 1 is empty"));
  EXPECT_THAT(error({"\xE3\x81"}), HasSubstr("INVALID_ARGUMENT: stop text 0 is not valid UTF-8"));
  EXPECT_EQ(error({"終", "終", "\n"}), "OK");
}

}  // namespace
}  // namespace tandem
