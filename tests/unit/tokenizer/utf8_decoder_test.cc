#include "common/tokenizer/utf8_decoder.h"

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/tokenizer/utf8_reference.h"

namespace tandem {
namespace {

constexpr char kFffd[] = "\xEF\xBF\xBD";

// Pushes byte by byte and collects the text.
std::string DecodeByteWise(const std::string& bytes) {
  Utf8Decoder decoder;
  std::string text;
  for (const char byte : bytes) {
    const Utf8Decoder::Result result = decoder.Push(byte);
    if (result.replaced_before) text += kFffd;
    text += std::string(result.text);
    EXPECT_LE(decoder.tail_size(), 3u);
  }
  if (decoder.Flush()) text += kFffd;
  return text;
}

std::string DecodeReference(const std::string& bytes) {
  std::string text;
  for (const DecodedUnit& unit : DecodeUtf8Reference(bytes)) text += unit.text;
  return text;
}

TEST(Utf8Decoder, KeepsValidText) {
  const std::string text = "a\xC2\x80\xDF\xBF あ\xED\x9F\xBF\xEE\x80\x80 😀\xF4\x8F\xBF\xBF";
  EXPECT_EQ(DecodeByteWise(text), text);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_TRUE(IsValidUtf8(kFffd));
  EXPECT_TRUE(IsValidUtf8(""));
}

// The example of the Unicode standard for the substitution of maximal subparts.
TEST(Utf8Decoder, ReplacesMaximalSubparts) {
  const std::string input = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
  const std::string f = kFffd;
  const std::string expected = "a" + f + f + f + "b" + f + "c" + f + f + "d";
  EXPECT_EQ(DecodeByteWise(input), expected);
  EXPECT_EQ(ReplaceInvalidUtf8(input), expected);
  EXPECT_FALSE(IsValidUtf8(input));
}

// What can never become valid is not waited for.
TEST(Utf8Decoder, ReplacesAtOnce) {
  for (const char* pair : {"\xE0\x80", "\xED\xA0", "\xF0\x8F", "\xF4\x90"}) {
    Utf8Decoder decoder;
    EXPECT_TRUE(decoder.Push(pair[0]).text.empty());
    const Utf8Decoder::Result result = decoder.Push(pair[1]);
    EXPECT_TRUE(result.replaced_before);
    EXPECT_EQ(std::string(result.text), kFffd);
    EXPECT_EQ(decoder.tail_size(), 0u);
  }
  for (const char byte : {'\x80', '\xBF', '\xC0', '\xC1', '\xF5', '\xFF'}) {
    Utf8Decoder decoder;
    EXPECT_EQ(std::string(decoder.Push(byte).text), kFffd);
    EXPECT_FALSE(IsValidUtf8(std::string(1, byte)));
  }
}

TEST(Utf8Decoder, IncompleteTailIsOneReplacement) {
  EXPECT_EQ(DecodeByteWise("x\xF0\x9F\x98"), std::string("x") + kFffd);
  EXPECT_EQ(DecodeByteWise("x\xE3"), std::string("x") + kFffd);
  EXPECT_FALSE(IsValidUtf8("x\xE3"));
}

// Every string of up to two bytes, with a byte behind it that shows where the decoder stands.
TEST(Utf8Decoder, AllPairsAgreeWithReference) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      for (const char* rest : {"", "\x80", "\xBF\xBF", "A"}) {
        const std::string bytes =
            std::string{static_cast<char>(first), static_cast<char>(second)} + rest;
        ASSERT_EQ(DecodeByteWise(bytes), DecodeReference(bytes)) << first << " " << second;
        ASSERT_EQ(IsValidUtf8(bytes), DecodeReference(bytes) == bytes) << first << " " << second;
      }
    }
  }
}

TEST(Utf8Decoder, RandomBytesAgreeWithReference) {
  std::mt19937 random(7);
  const std::string alphabet = "a\x80\x8F\x90\xA0\xBF\xC2\xE0\xE3\xED\xF0\xF4";
  for (int round = 0; round < 20000; ++round) {
    std::string bytes(random() % 9, '\0');
    for (char& byte : bytes) byte = alphabet[random() % alphabet.size()];
    ASSERT_EQ(DecodeByteWise(bytes), DecodeReference(bytes));
  }
}

}  // namespace
}  // namespace tandem
