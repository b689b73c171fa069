#include "common/base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem {
namespace {

uint64_t Hash(absl::string_view text) {
  Hasher hasher;
  hasher.Update(text);
  return hasher.Digest();
}

// XXH3-64 with seed 0 of the empty input, from the algorithm's published test values.
TEST(Hasher, KnowsThePublishedValue) { EXPECT_EQ(Hash(""), 0x2d06800538d394c2ull); }

TEST(Hasher, DoesNotDependOnHowTheInputIsCut) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 7));
  for (const size_t cut : {1u, 7u, 240u, 999u}) {
    Hasher hasher;
    hasher.Update(absl::string_view(text).substr(0, cut));
    hasher.Update(absl::string_view(text).substr(cut));
    EXPECT_EQ(hasher.Digest(), Hash(text)) << cut;
  }
}

TEST(Hasher, SeesEveryByte) {
  const std::string text(300, 'a');
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = 'b';
    EXPECT_NE(Hash(other), Hash(text)) << i;
  }
}

TEST(HashHex, HasSixteenDigits) { EXPECT_EQ(HashHex(0xabcull), "0000000000000abc"); }

}  // namespace
}  // namespace tandem
