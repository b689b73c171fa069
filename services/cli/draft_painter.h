#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem::cli {

// A stretch of reply text whose tokens all were accepted drafts, or all were not.
struct DraftSpan {
  std::string text = {};
  bool draft = false;
  bool operator==(const DraftSpan&) const = default;
};

// Finds out which of a reply's text came from accepted drafts. Tokens and text arrive separately,
// since the text of a message may lag behind its tokens. A character that several tokens make up
// belongs to the last of them.
class DraftPainter final {
 public:
  // The next token's bytes, and whether it was an accepted draft.
  void AddToken(absl::string_view bytes, bool draft);
  // The next text of the reply, cut where the origin changes. Text that no token accounts for
  // counts as not drafted; tokens whose text was dropped by the server (stop texts, markers) are
  // skipped.
  std::vector<DraftSpan> AddText(absl::string_view text);

 private:
  struct Character {
    std::string text;  // one code point
    bool draft;
  };

  // Whether `character` came from a draft; takes it and what lies before it off the queue.
  bool Take(absl::string_view character);

  Utf8Decoder decoder_;
  std::deque<Character> characters_;
};

// For each of a message's `tokens` tokens whether it was an accepted draft: of the tokens of a
// round, the first `accepted` were. Tokens beyond the rounds were not.
template <typename Rounds>
std::vector<bool> AcceptedDrafts(const Rounds& rounds, int tokens) {
  std::vector<bool> drafts;
  for (const auto& round : rounds) {
    for (uint32_t i = 0; i < round.tokens(); ++i) drafts.push_back(i < round.accepted());
  }
  drafts.resize(static_cast<size_t>(tokens), false);
  return drafts;
}

}  // namespace tandem::cli
