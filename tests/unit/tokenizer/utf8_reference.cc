#include "tests/unit/tokenizer/utf8_reference.h"

#include <cstdint>

namespace tandem {
namespace {

// Length of the sequence that `lead` opens by its high bits alone, 0 for a continuation byte or
// 0xF8 and above.
size_t SequenceLength(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >> 5 == 6) return 2;
  if (lead >> 4 == 14) return 3;
  if (lead >> 3 == 30) return 4;
  return 0;
}

// Whether the values [low, high] hold a scalar value that needs `length` bytes.
bool HasScalar(uint32_t low, uint32_t high, size_t length) {
  const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const uint32_t largest[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  if (low < smallest[length]) low = smallest[length];
  if (high > largest[length]) high = largest[length];
  if (low >= 0xD800 && low <= 0xDFFF) low = 0xE000;
  return low <= high;
}

// The longest prefix of a sequence with a value at bytes[begin], at least one byte, and whether it
// is whole.
struct Prefix {
  size_t size = 1;
  bool whole = false;
  bool possible = false;  // the prefix opens some code point
};

Prefix LongestPrefix(const std::string& bytes, size_t begin) {
  Prefix prefix;
  const size_t length = SequenceLength(static_cast<uint8_t>(bytes[begin]));
  if (length == 0) return prefix;
  uint32_t value = static_cast<uint8_t>(bytes[begin]);
  if (length > 1) value &= (1u << (7 - length)) - 1;
  for (size_t size = 1; size <= length && begin + size <= bytes.size(); ++size) {
    if (size > 1) {
      const auto byte = static_cast<uint8_t>(bytes[begin + size - 1]);
      if (byte >> 6 != 2) break;
      value = value << 6 | (byte & 0x3F);
    }
    const size_t open_bits = 6 * (length - size);
    if (!HasScalar(value << open_bits, ((value + 1) << open_bits) - 1, length)) break;
    prefix = {.size = size, .whole = size == length, .possible = true};
  }
  return prefix;
}

}  // namespace

std::vector<DecodedUnit> DecodeUtf8Reference(const std::string& bytes) {
  std::vector<DecodedUnit> units;
  for (size_t begin = 0; begin < bytes.size();) {
    const Prefix prefix = LongestPrefix(bytes, begin);
    const size_t end = begin + prefix.size;
    units.push_back({.text = prefix.whole ? bytes.substr(begin, prefix.size) : "\xEF\xBF\xBD",
                     .begin = begin,
                     .end = end,
                     .incomplete = prefix.possible && !prefix.whole && end == bytes.size()});
    begin = end;
  }
  return units;
}

}  // namespace tandem
