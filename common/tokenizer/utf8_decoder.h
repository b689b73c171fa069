#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace tandem {

// U+FFFD in UTF-8.
inline constexpr absl::string_view kReplacementText = "\xEF\xBF\xBD";

// Incremental UTF-8 decoder. Bytes that can never become a code point are replaced by U+FFFD as
// soon as that is certain, one U+FFFD for each maximal subpart of a code point, as the Unicode
// standard recommends. Copyable.
class Utf8Decoder final {
 public:
  // What one byte completed: at most the replacement of the bytes before it and itself.
  struct Result {
    bool replaced_before = false;  // the bytes before this one became U+FFFD
    absl::string_view
        text;  // the code point that this byte ends, or its own replacement; empty if incomplete
  };

  // `Result::text` is valid until the next call.
  Result Push(char byte);
  // Bytes of the code point that is not complete yet: 0 to 3.
  size_t tail_size() const { return tail_size_; }
  // Forgets the tail. True if there was one: it stands for one U+FFFD.
  bool Flush();

 private:
  char tail_[4] = {};
  size_t tail_size_ = 0;
  size_t needed_ = 0;         // bytes of the whole code point
  unsigned char low_ = 0x80;  // range of the next byte
  unsigned char high_ = 0xBF;
};

bool IsValidUtf8(absl::string_view bytes);

// `bytes` with everything that is not UTF-8 replaced by U+FFFD.
std::string ReplaceInvalidUtf8(absl::string_view bytes);

}  // namespace tandem
