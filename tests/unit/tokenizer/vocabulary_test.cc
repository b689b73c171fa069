#include "common/tokenizer/vocabulary.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tokenizer/vocabulary_test_util.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

// At each position tries every token and takes the longest that fits.
Ids EncodeReference(const std::map<int32_t, std::string>& tokens, const std::string& text) {
  Ids ids;
  for (size_t position = 0; position < text.size();) {
    int32_t best = static_cast<uint8_t>(text[position]) + 1;
    size_t best_size = 1;
    for (const auto& [id, bytes] : tokens) {
      if (bytes.size() > best_size && text.compare(position, bytes.size(), bytes) == 0) {
        best = id;
        best_size = bytes.size();
      }
    }
    ids.push_back(best);
    position += best_size;
  }
  return ids;
}

TEST(Vocabulary, EncodesLikeTheWorldVocabulary) {
  const Vocabulary vocabulary = MakeVocabulary(WorldEntries());
  const std::pair<std::string, Ids> cases[] = {
      {"\n", {11}},
      {"\n\n", {261}},
      {"\r\n", {263}},
      {"\n\n\n", {3328}},
      {" \n\n", {3336}},
      {"User", {24281}},
      {" User", {29956}},
      {"System", {40812}},
      {" Assistant", {58683}},
      {"Assistant", {5585, 41693}},
      {":", {59}},
      {"<", {61}},
      {" <", {295}},
      {"</", {754}},
      {"></", {5439}},
      {"think", {35762}},
      {">", {63}},
      {"```", {6884}},
      {" ```", {21214}},
      {"json", {26060}},
      {"\n\nUser:", {261, 24281, 59}},
      {"\n\nAssistant:", {261, 5585, 41693, 59}},
      {" <think", {295, 35762}},
      {"</think>", {754, 35762, 63}},
      {"。", {10080}},
      {"。\n\nUser:", {28329, 11, 24281, 59}},
      {"，\n", {28331}},
      {"…\n", {28324}},
      {"A ", {66, 33}},
      {"<|rwkv_tokenizer_end_of_text|>",
       {61, 125, 2172, 2003, 96, 58464, 96, 7463, 96, 2090, 96, 27139, 125, 63}},
  };
  for (const auto& [text, ids] : cases) EXPECT_EQ(vocabulary.Encode(text), ids) << text;
}

TEST(Vocabulary, EncodesNothingToNothing) {
  const Vocabulary vocabulary = MakeVocabulary({});
  EXPECT_THAT(vocabulary.Encode(""), IsEmpty());
  EXPECT_EQ(vocabulary.Decode({}), "");
}

// A long path without a token on it must fall back to the last token seen, not to where the path
// ended.
TEST(Vocabulary, FallsBackFromALongerPath) {
  const Vocabulary vocabulary = MakeVocabulary({{257, "ab"}, {258, "abcdefg"}, {259, "cd"}});
  EXPECT_THAT(vocabulary.Encode("abcdefx"), ElementsAre(257, 259, 102, 103, 121));
  EXPECT_THAT(vocabulary.Encode("abcdefg"), ElementsAre(258));
  EXPECT_THAT(vocabulary.Encode("abcdef"), ElementsAre(257, 259, 102, 103));
  EXPECT_THAT(vocabulary.Encode("aab"), ElementsAre(98, 257));
}

TEST(Vocabulary, BytesOfIdsWithAndWithoutText) {
  const Vocabulary vocabulary = MakeVocabulary({{300, "ab"}, {302, "\xE3\x81"}});
  EXPECT_EQ(vocabulary.size(), 258u);
  EXPECT_EQ(vocabulary.max_id(), 302);
  EXPECT_EQ(vocabulary.Bytes(0), "");
  EXPECT_EQ(vocabulary.Bytes(66), "A");
  EXPECT_EQ(vocabulary.Bytes(1), absl::string_view("\0", 1));
  EXPECT_EQ(vocabulary.Bytes(300), "ab");
  EXPECT_EQ(vocabulary.Bytes(302), "\xE3\x81");
  for (const int32_t id : {-1, 257, 299, 301, 303, 65535, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(vocabulary.Bytes(id), "\xEF\xBF\xBD") << id;
  }
  EXPECT_EQ(vocabulary.Decode({66, 0, 300, 301}), "Aab\xEF\xBF\xBD");
}

TEST(Vocabulary, SurvivesAMove) {
  Vocabulary first = MakeVocabulary({{257, "ab"}});
  const absl::string_view bytes = first.Bytes(257);
  const Vocabulary second = std::move(first);
  EXPECT_EQ(bytes, "ab");
  EXPECT_THAT(second.Encode("abc"), ElementsAre(257, 100));
}

TEST(Vocabulary, ToleratesCarriageReturns) {
  const std::string text =
      absl::StrReplaceAll(VocabularyText({{257, "\r\n"}, {258, "a\r"}}), {{"\n", "\r\n"}});
  const absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Parse(text, "test");
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status();
  EXPECT_THAT(vocabulary->Encode("\r\na\r"), ElementsAre(257, 258));
}

TEST(Vocabulary, RandomTextsAgreeWithReference) {
  std::mt19937 random(11);
  const std::string alphabet = std::string("ab\n \xE3\x81\x82", 7) + std::string(1, '\0');
  const auto random_string = [&](size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    return text;
  };
  for (int round = 0; round < 30; ++round) {
    std::map<int32_t, std::string> tokens;
    std::vector<std::string> seen;
    int32_t id = 256;
    for (int i = 0; i < 200; ++i) {
      const std::string bytes = random_string(2 + random() % 7);
      if (std::find(seen.begin(), seen.end(), bytes) != seen.end()) continue;
      seen.push_back(bytes);
      tokens[id += 1 + static_cast<int32_t>(random() % 3)] = bytes;
    }
    const Vocabulary vocabulary = MakeVocabulary(tokens);
    for (int i = 0; i < 20; ++i) {
      const std::string text = random_string(random() % 200);
      const Ids ids = vocabulary.Encode(text);
      ASSERT_EQ(ids, EncodeReference(tokens, text));
      ASSERT_EQ(vocabulary.Decode(ids), text);
    }
  }
}

TEST(Vocabulary, RandomBytesSurviveTheRoundTrip) {
  const Vocabulary vocabulary = MakeVocabulary(WorldEntries());
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(random() % 500, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    const Ids ids = vocabulary.Encode(bytes);
    ASSERT_EQ(vocabulary.Decode(ids), bytes);
    ASSERT_EQ(std::count(ids.begin(), ids.end(), kEndOfText), 0);
  }
}

}  // namespace
}  // namespace tandem
