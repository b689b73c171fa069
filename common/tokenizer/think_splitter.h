#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "common/tokenizer/prompt.h"

namespace tandem {

// Parts the generated text of one answer into reasoning and answer, piece by piece. The prompt
// ended inside a marker
// ("<think" or "</think"), so a leading ">" belongs to it and is dropped. In ThinkMode::kOn the
// text up to the first
// "</think>" is reasoning. One space at the start of the answer is dropped, in every mode.
// However the text is cut into pieces, the concatenated results are the same. Copyable.
class ThinkSplitter final {
 public:
  struct Piece {
    std::string reasoning = {};
    std::string answer = {};
  };

  explicit ThinkSplitter(ThinkMode mode);

  // Holds back at most the seven bytes that may be the start of "</think>".
  Piece Push(absl::string_view text);
  // What is still held back; nothing may be pushed afterwards.
  Piece Flush();

 private:
  enum class Part { kMarkerEnd, kReasoning, kAnswerStart, kAnswer };

  ThinkMode mode_;
  Part part_;
  std::string held_;  // reasoning that is a proper prefix of "</think>"
};

}  // namespace tandem
