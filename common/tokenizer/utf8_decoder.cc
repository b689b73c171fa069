#include "common/tokenizer/utf8_decoder.h"

namespace tandem {

Utf8Decoder::Result Utf8Decoder::Push(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  Result result;
  if (tail_size_ > 0) {
    if (value >= low_ && value <= high_) {
      tail_[tail_size_++] = byte;
      low_ = 0x80;
      high_ = 0xBF;
      if (tail_size_ == needed_) {
        result.text = absl::string_view(tail_, needed_);
        tail_size_ = 0;
      }
      return result;
    }
    result.replaced_before = true;
    tail_size_ = 0;
  }
  tail_[0] = byte;
  if (value < 0x80) {
    result.text = absl::string_view(tail_, 1);
  } else if (value < 0xC2 || value > 0xF4) {
    result.text = kReplacementText;
  } else {
    tail_size_ = 1;
    needed_ = value < 0xE0 ? 2 : value < 0xF0 ? 3 : 4;
    // The second byte rules out overlong forms, surrogates and values above U+10FFFF.
    low_ = value == 0xE0 ? 0xA0 : value == 0xF0 ? 0x90 : 0x80;
    high_ = value == 0xED ? 0x9F : value == 0xF4 ? 0x8F : 0xBF;
  }
  return result;
}

bool Utf8Decoder::Flush() {
  const bool had_tail = tail_size_ > 0;
  tail_size_ = 0;
  return had_tail;
}

bool IsValidUtf8(absl::string_view bytes) {
  Utf8Decoder decoder;
  for (const char byte : bytes) {
    const Utf8Decoder::Result result = decoder.Push(byte);
    if (result.replaced_before || result.text.data() == kReplacementText.data()) return false;
  }
  return !decoder.Flush();
}

std::string ReplaceInvalidUtf8(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  const auto append = [&text](absl::string_view part) { text.append(part.data(), part.size()); };
  Utf8Decoder decoder;
  for (const char byte : bytes) {
    const Utf8Decoder::Result result = decoder.Push(byte);
    if (result.replaced_before) append(kReplacementText);
    append(result.text);
  }
  if (decoder.Flush()) append(kReplacementText);
  return text;
}

}  // namespace tandem
