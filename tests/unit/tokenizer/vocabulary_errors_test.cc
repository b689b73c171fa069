#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/tokenizer/vocabulary.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tokenizer/vocabulary_test_util.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text, int32_t id_limit = Vocabulary::kMaxIds) {
  const absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Parse(text, "some.txt", id_limit);
  if (vocabulary.ok()) return "OK";
  EXPECT_EQ(vocabulary.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(vocabulary.status().message());
}

TEST(VocabularyErrors, NameFileAndLine) {
  const std::string good = VocabularyText({{257, "ab"}});  // lines 1..257
  EXPECT_EQ(ErrorOf(good), "OK");
  const struct {
    std::string line;
    std::string message;
  } cases[] = {
      {"258 'abc' 4\n", "some.txt:258: the length field is 4"},
      {"258 '\\q' 1\n", "some.txt:258: unknown or cut escape"},
      {"258\n", "some.txt:258: expected `<id>"},
      {"\n", "some.txt:258: expected `<id>"},
      {"258 'abc' 3\n\n259 'abcd' 4\n", "some.txt:259: expected `<id>"},
      {"258 'ab' 2\n", "some.txt:258: the token is the same as that of id 257"},
      {"258 'A' 1\n", "some.txt:258: the token is the same as that of id 66"},
      {"257 'abc' 3\n", "some.txt:258: id 257 must be larger than the id before it, 257"},
      {"256 'abc' 3\n", "some.txt:258: id 256 must be larger than the id before it, 257"},
      {"0 'abc' 3\n", "some.txt:258: id 0 must be larger"},
      {absl::StrCat(Vocabulary::kMaxIds, " 'abc' 3\n"), "some.txt:258: id 1048576 must be below"},
  };
  for (const auto& bad : cases) EXPECT_THAT(ErrorOf(good + bad.line), HasSubstr(bad.message));
}

TEST(VocabularyErrors, FirstLineCounts) {
  EXPECT_THAT(ErrorOf("0 'A' 1\n"), HasSubstr("some.txt:1: id 0 must be larger"));
  EXPECT_THAT(ErrorOf("hello world and more\n"), HasSubstr("some.txt:1: the id must be"));
}

TEST(VocabularyErrors, EverySingleByteIsNeeded) {
  for (const int missing : {0, 10, 65, 128, 255}) {
    std::string text;
    for (int byte = 0; byte < 256; ++byte) {
      if (byte != missing) text += BytesLine(byte + 1, std::string(1, static_cast<char>(byte)));
    }
    EXPECT_THAT(ErrorOf(text), HasSubstr("some.txt: no token for the single byte 0x"));
  }
  EXPECT_THAT(ErrorOf(""), HasSubstr("some.txt:1: expected `<id>"));
  EXPECT_THAT(ErrorOf("66 'A' 1\n"), HasSubstr("single byte 0x00"));
}

TEST(VocabularyErrors, IdsStayBelowTheLimit) {
  const std::string text = VocabularyText({{300, "ab"}});
  EXPECT_EQ(ErrorOf(text, 301), "OK");
  EXPECT_THAT(ErrorOf(text, 300), HasSubstr("some.txt:257: id 300 must be below 300"));
  EXPECT_THAT(ErrorOf(text, 0), HasSubstr("some.txt: the id limit must be in 1..1048576"));
  EXPECT_THAT(ErrorOf(text, -5), HasSubstr("the id limit must be in"));
  EXPECT_THAT(ErrorOf(text, Vocabulary::kMaxIds + 1), HasSubstr("the id limit must be in"));
}

// A file cut anywhere ends in an error or, between two lines, in a smaller vocabulary without the
// single bytes.
TEST(VocabularyErrors, EveryTruncationIsRefused) {
  std::string text = VocabularyText({});
  text.pop_back();  // the last newline may be missing
  EXPECT_EQ(ErrorOf(text), "OK");
  for (size_t size = 0; size < text.size(); ++size) {
    ASSERT_THAT(ErrorOf(text.substr(0, size)), HasSubstr("some.txt")) << size;
  }
}

// A damaged file is refused with its name, or it still is a vocabulary that gives every text back.
TEST(VocabularyErrors, RandomDamage) {
  const std::string good = VocabularyText({{257, "ab"}, {258, "\xE3\x81"}});
  std::mt19937 random(17);
  const std::string bytes = "\\'\"bxu09 \n\r\xE3";
  for (int round = 0; round < 500; ++round) {
    std::string text = good;
    for (size_t i = 1 + random() % 3; i > 0; --i) {
      const size_t place = random() % text.size();
      const size_t removed = random() % 3;
      text.replace(place, removed, 1, bytes[random() % bytes.size()]);
    }
    const absl::StatusOr<Vocabulary> vocabulary = Vocabulary::Parse(text, "some.txt");
    if (vocabulary.ok()) {
      ASSERT_EQ(vocabulary->Decode(vocabulary->Encode(text)), text);
    } else {
      ASSERT_THAT(std::string(vocabulary.status().message()), HasSubstr("some.txt:"));
    }
  }
}

}  // namespace
}  // namespace tandem
