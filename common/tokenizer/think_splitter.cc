#include "common/tokenizer/think_splitter.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr absl::string_view kThinkEnd = "</think>";

}  // namespace

ThinkSplitter::ThinkSplitter(ThinkMode mode)
    : mode_(mode), part_(mode == ThinkMode::kOff ? Part::kAnswerStart : Part::kMarkerEnd) {}

ThinkSplitter::Piece ThinkSplitter::Push(absl::string_view text) {
  Piece piece;
  if (part_ == Part::kMarkerEnd && !text.empty()) {
    if (text.front() == '>') text.remove_prefix(1);
    part_ = mode_ == ThinkMode::kOn ? Part::kReasoning : Part::kAnswerStart;
  }
  while (part_ == Part::kReasoning && !text.empty()) {
    // "<" only opens the marker, so a failed match can start again at this very byte and nowhere
    // before.
    const char byte = text.front();
    if (byte != kThinkEnd[held_.size()]) {
      piece.reasoning += held_;
      held_.clear();
    }
    if (byte == kThinkEnd[held_.size()]) {
      held_.push_back(byte);
    } else {
      piece.reasoning.push_back(byte);
    }
    text.remove_prefix(1);
    if (held_.size() == kThinkEnd.size()) {
      held_.clear();
      part_ = Part::kAnswerStart;
    }
  }
  if (text.empty()) return piece;
  if (part_ == Part::kAnswerStart && text.front() == ' ') text.remove_prefix(1);
  part_ = Part::kAnswer;
  piece.answer.append(text.data(), text.size());
  return piece;
}

ThinkSplitter::Piece ThinkSplitter::Flush() {
  Piece piece{.reasoning = held_};
  held_.clear();
  return piece;
}

}  // namespace tandem
