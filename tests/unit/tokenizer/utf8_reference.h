#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tandem {

// A piece of decoded text: a code point, or U+FFFD for bytes that are not UTF-8.
struct DecodedUnit {
  std::string text;
  size_t begin = 0;  // the bytes it stands for: [begin, end) of the input
  size_t end = 0;
  bool incomplete = false;  // the input ends inside it; text is U+FFFD
};

// Plain decoder over a whole string, by arithmetic on the values that a sequence can still reach.
std::vector<DecodedUnit> DecodeUtf8Reference(const std::string& bytes);

}  // namespace tandem
