#include "common/tokenizer/vocabulary_line.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

struct GoodLine {
  std::string line;
  int32_t id;
  std::string bytes;
};

TEST(VocabularyLine, ReadsEveryLiteralForm) {
  const GoodLine lines[] = {
      {"66 'A' 1", 66, "A"},
      {"33 ' ' 1", 33, " "},
      {"3336 ' \\n\\n' 3", 3336, " \n\n"},
      {"300 '   a  b ' 8", 300, "   a  b "},
      {"11 '\\n' 1", 11, "\n"},
      {"10 '\\t' 1", 10, "\t"},
      {"14 '\\r' 1", 14, "\r"},
      {"93 '\\\\' 1", 93, "\\"},
      {"40 \"'\" 1", 40, "'"},
      {"35 '\"' 1", 35, "\""},
      {"500 '\\'\"' 2", 500, "'\""},
      {"500 '\\\\n' 2", 500, "\\n"},
      {"500 b'\\\\x' 2", 500, "\\x"},
      {"1 '\\x00' 1", 1, std::string(1, '\0')},
      {"128 '\\x7f' 1", 128, "\x7F"},
      // A code point in a text literal, a byte in a bytes literal.
      {"400 '\\xa0' 2", 400, "\xC2\xA0"},
      {"161 b'\\xa0' 1", 161, "\xA0"},
      {"401 b'\\xE3\\x81' 2", 401, "\xE3\x81"},
      {"402 b'a \\xe3' 3", 402, "a \xE3"},
      {"403 b\"'\\xe3\" 2", 403, "'\xE3"},
      {"9804 '\\u2002' 3", 9804, "\xE2\x80\x82"},
      {"9804 '\\u07ff' 2", 9804, "\xDF\xBF"},
      {"9804 '\\u0041' 1", 9804, "A"},
      {"9804 'x\\uFEFFy' 5", 9804, "x\xEF\xBB\xBFy"},
      {"28329 '。\\n' 4", 28329, "\xE3\x80\x82\n"},
      {"700 '😀' 4", 700, "\xF0\x9F\x98\x80"},
      {"999999999 'A' 1", 999999999, "A"},
  };
  for (const GoodLine& good : lines) {
    const absl::StatusOr<VocabularyLine> line = ParseVocabularyLine(good.line);
    ASSERT_TRUE(line.ok()) << good.line << ": " << line.status();
    EXPECT_EQ(line->id, good.id) << good.line;
    EXPECT_EQ(line->bytes, good.bytes) << good.line;
  }
}

struct BadLine {
  std::string line;
  std::string message;
};

TEST(VocabularyLine, NamesWhatIsWrong) {
  const BadLine lines[] = {
      {"", "expected `<id> <literal> <byte length>`"},
      {"66", "expected `<id> <literal> <byte length>`"},
      {"66 'A'", "expected `<id> <literal> <byte length>`"},
      {"x 'A' 1", "the id must be a decimal number, found x"},
      {"-1 'A' 1", "the id must be a decimal number, found -1"},
      {" 'A' 1", "the id must be a decimal number"},
      {"1000000000 'A' 1", "the id must be a decimal number"},
      {"66 'A' x", "the length must be a decimal number, found x"},
      {"66 'A' ", "the length must be a decimal number"},
      {"66 'A' 2", "the length field is 2, but the token has 1 bytes"},
      {"400 '\\xa0' 1", "the length field is 1, but the token has 2 bytes"},
      {"66 '' 0", "the token is empty"},
      {"66 A 1", "expected a literal"},
      {"66 'A 1", "expected a literal"},
      {"66 'A\" 1", "expected a literal"},
      {"66 ' 1", "expected a literal"},
      {"66 b 1", "expected a literal"},
      {"66 u'A' 1", "expected a literal"},
      {"66 'A'B' 3", "the quote ends before the literal does"},
      {"66 \"A\"\" 2", "the quote ends before the literal does"},
      {"66 '\\' 1", "unknown or cut escape"},
      {"66 '\\q' 2", "unknown or cut escape \"\\q\""},
      {"66 '\\\"' 1", "unknown or cut escape"},
      {"66 '\\0' 1", "unknown or cut escape"},
      {"66 '\\U0001f600' 4", "unknown or cut escape"},
      {"66 '\\x4' 1", "unknown or cut escape \"\\x\""},
      {"66 '\\x4g' 1", "unknown or cut escape"},
      {"66 '\\u200' 3", "unknown or cut escape \"\\u\""},
      {"66 b'\\u2002' 3", "expected \\n \\t \\r \\\\ \\' or \\xNN"},
      {"66 '\\ud83d\\ude00' 4", "not valid UTF-8"},
      {"66 '\xE3\x81' 2", "not valid UTF-8"},
      {"66 b'\xC3\xA9' 2", "not ASCII"},
  };
  for (const BadLine& bad : lines) {
    const absl::StatusOr<VocabularyLine> line = ParseVocabularyLine(bad.line);
    ASSERT_FALSE(line.ok()) << bad.line;
    EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument) << bad.line;
    EXPECT_THAT(std::string(line.status().message()), HasSubstr(bad.message)) << bad.line;
  }
}

}  // namespace
}  // namespace tandem
