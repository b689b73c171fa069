#include "services/cli/draft_painter.h"

namespace tandem::cli {
namespace {

// Bytes of the code point that starts with `lead`, in valid UTF-8.
size_t CodePointSize(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

}  // namespace

void DraftPainter::AddToken(absl::string_view bytes, bool draft) {
  for (const char byte : bytes) {
    const Utf8Decoder::Result result = decoder_.Push(byte);
    if (result.replaced_before) characters_.push_back({std::string(kReplacementText), draft});
    if (!result.text.empty()) characters_.push_back({std::string(result.text), draft});
  }
}

std::vector<DraftSpan> DraftPainter::AddText(absl::string_view text) {
  std::vector<DraftSpan> spans;
  while (!text.empty()) {
    const absl::string_view character = text.substr(0, CodePointSize(text[0]));
    text.remove_prefix(character.size());
    const bool draft = Take(character);
    if (spans.empty() || spans.back().draft != draft) spans.push_back({.draft = draft});
    spans.back().text.append(character.data(), character.size());
  }
  return spans;
}

bool DraftPainter::Take(absl::string_view character) {
  for (size_t i = 0; i < characters_.size(); ++i) {
    if (characters_[i].text != character) continue;
    const bool draft = characters_[i].draft;
    characters_.erase(characters_.begin(), characters_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return draft;
  }
  return false;
}

}  // namespace tandem::cli
