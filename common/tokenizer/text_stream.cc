#include "common/tokenizer/text_stream.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tandem {

absl::StatusOr<TextStream> TextStream::Create(const Options& options) {
  if (options.min_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("min_tokens is ", options.min_tokens, ", it must not be negative"));
  }
  ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::Create(options.stops));
  return TextStream(std::move(matcher), options.include_stop, options.min_tokens);
}

TextStream::TextStream(StopMatcher matcher, bool include_stop, int64_t min_tokens)
    : matcher_(std::move(matcher)), include_stop_(include_stop), min_tokens_(min_tokens) {}

TextStream::Piece TextStream::Push(absl::string_view token_bytes) {
  if (ended_) return {.tokens = certain_tokens_};
  ++pushed_tokens_;
  const uint64_t token_begin = token_ends_.empty() ? certain_end_ : token_ends_.back();
  token_ends_.push_back(token_begin + token_bytes.size());
  std::string text;
  for (const char byte : token_bytes) {
    const uint64_t tail_size = decoder_.tail_size();
    const Utf8Decoder::Result result = decoder_.Push(byte);
    if (result.replaced_before) text += Append(kReplacementText, tail_size);
    if (!stop_.has_value() && !result.text.empty()) {
      text += Append(result.text, result.replaced_before ? 1 : tail_size + 1);
    }
    if (stop_.has_value()) {
      return {.text = std::move(text), .tokens = certain_tokens_, .stop = stop_};
    }
  }
  SettleTokens(held_.empty() ? decoded_bytes_ : held_.front().origin);
  return {.text = std::move(text), .tokens = certain_tokens_};
}

TextStream::Piece TextStream::Flush() {
  if (ended_) return {.tokens = certain_tokens_};
  std::string text;
  const uint64_t tail_size = decoder_.tail_size();
  if (decoder_.Flush()) text = Append(kReplacementText, tail_size);
  if (!stop_.has_value()) {
    text += Release(0);
    SettleTokens(decoded_bytes_);
    ended_ = true;
  }
  return {.text = std::move(text), .tokens = certain_tokens_, .stop = stop_};
}

std::string TextStream::Append(absl::string_view code_point, uint64_t source_size) {
  for (const char byte : code_point) {
    held_.push_back({.byte = byte, .origin = decoded_bytes_});
    position_ = matcher_.Advance(position_, static_cast<uint8_t>(byte));
  }
  decoded_bytes_ += source_size;
  if (const int stop_index = matcher_.Match(position_); stop_index != StopMatcher::kNone) {
    if (pushed_tokens_ > min_tokens_) return EndAt(stop_index);
    position_ = matcher_.Decline(position_);
  }
  return Release(matcher_.Depth(position_));
}

std::string TextStream::EndAt(int stop_index) {
  const size_t stop_size = matcher_.StopSize(stop_index);
  const uint64_t stop_begin = held_[held_.size() - stop_size].origin;
  const uint64_t cut = include_stop_ ? decoded_bytes_ : stop_begin;
  std::string text = Release(include_stop_ ? 0 : stop_size);
  held_.clear();

  SettleTokens(stop_begin);
  stop_ = Stop{.stop_index = stop_index, .tokens_before = certain_tokens_};
  SettleTokens(cut);
  stop_->straddled = certain_end_ < cut;
  if (stop_->straddled) ++certain_tokens_;
  token_ends_.clear();
  ended_ = true;
  return text;
}

std::string TextStream::Release(size_t keep) {
  std::string text;
  while (held_.size() > keep) {
    text.push_back(held_.front().byte);
    held_.pop_front();
  }
  return text;
}

void TextStream::SettleTokens(uint64_t offset) {
  while (!token_ends_.empty() && token_ends_.front() <= offset) {
    certain_end_ = token_ends_.front();
    token_ends_.pop_front();
    ++certain_tokens_;
  }
}

}  // namespace tandem
