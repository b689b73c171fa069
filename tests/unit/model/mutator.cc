#include "tests/unit/model/mutator.h"

#include <algorithm>

namespace tandem {
namespace {

// Numbers that break length and offset arithmetic.
constexpr uint64_t kExtremes[] = {0,
                                  1,
                                  0x7F,
                                  0xFF,
                                  0xFFFF,
                                  0x7FFFFFFF,
                                  0x80000000,
                                  0xFFFFFFFF,
                                  0x100000000,
                                  0x3FFFFFFFFFFFFFFF,
                                  0x7FFFFFFFFFFFFFFF,
                                  0x8000000000000000,
                                  0xFFFFFFFFFFFFFFFF};

}  // namespace

std::string Mutator::Mutate(std::string bytes) {
  const size_t changes = 1 + Below(4);
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) ChangeOnce(&bytes);
  return bytes;
}

void Mutator::ChangeOnce(std::string* bytes) {
  const size_t size = bytes->size();
  const size_t at = Below(size);
  const size_t length = 1 + Below(std::min<size_t>(64, size - at));
  switch (Below(8)) {
    case 0:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
      break;
    case 1:
      (*bytes)[at] = static_cast<char>(Below(256));
      break;
    case 2: {
      const uint64_t value = kExtremes[Below(std::size(kExtremes))];
      const size_t width = size_t{1} << Below(4);
      for (size_t i = 0; i < width && at + i < size; ++i) {
        (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
      }
      break;
    }
    case 3:
      bytes->erase(at, length);
      break;
    case 4:
      bytes->insert(at, bytes->substr(Below(size), length));
      break;
    case 5:
      std::fill_n(bytes->begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
      break;
    case 6: {
      const std::string piece = bytes->substr(at, length);
      const size_t to = Below(size);
      bytes->replace(to, std::min(length, size - to), piece);
      break;
    }
    default:
      // The end is where a zip archive has its directory; cutting is rarer than the rest.
      if (Below(4) == 0) bytes->resize(at);
  }
}

}  // namespace tandem
