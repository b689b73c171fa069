#include "services/router/reply.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"

namespace tandem {

absl::StatusOr<Reply> Reply::Create(const Vocabulary* vocabulary, const ReplyOptions& options) {
  ASSIGN_OR_RETURN(TextStream text, TextStream::Create({.stops = options.stops,
                                                        .include_stop = options.include_stop,
                                                        .min_tokens = options.min_tokens}));
  return Reply(vocabulary, std::move(text), options);
}

Reply::Reply(const Vocabulary* vocabulary, TextStream text, const ReplyOptions& options)
    : vocabulary_(vocabulary), text_(std::move(text)), logprobs_(options.logprobs) {
  if (options.think.has_value()) think_.emplace(*options.think);
}

absl::Status Reply::Skip(const std::vector<uint32_t>& ids) {
  for (const uint32_t id : ids) {
    const TextStream::Piece piece = text_.Push(vocabulary_->Bytes(static_cast<int32_t>(id)));
    if (piece.stop.has_value()) {
      return FieldError("resume.emitted_ids", "hold a stop text, so the reply has ended");
    }
    if (think_.has_value()) think_->Push(piece.text);
  }
  ids_ = ids;
  released_ = ids.size();
  return absl::OkStatus();
}

absl::Status Reply::Check(const v1::Delta& delta) const {
  int in_rounds = 0;
  for (const v1::Round& round : delta.rounds()) in_rounds += static_cast<int>(round.tokens());
  if (in_rounds != delta.token_ids_size()) {
    return absl::InternalError(absl::StrCat("the verifier sent ", delta.token_ids_size(),
                                            " tokens in rounds of together ", in_rounds));
  }
  if (logprobs_ && delta.logprobs_size() != delta.token_ids_size()) {
    return absl::InternalError(absl::StrCat("the verifier sent ", delta.token_ids_size(),
                                            " tokens and ", delta.logprobs_size(), " logprobs"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply::Output> Reply::Add(const v1::Delta& delta) {
  Output output;
  if (text_.ended()) {
    trimmed_ += delta.token_ids_size();
    return output;
  }
  RETURN_IF_ERROR(Check(delta));
  ids_.insert(ids_.end(), delta.token_ids().begin(), delta.token_ids().end());
  for (const v1::Round& round : delta.rounds()) {
    if (round.tokens() > 0) held_rounds_.push_back(round);
  }
  if (logprobs_) {
    held_logprobs_.insert(held_logprobs_.end(), delta.logprobs().begin(), delta.logprobs().end());
  }
  int64_t certain = static_cast<int64_t>(released_);
  for (const uint32_t id : delta.token_ids()) {
    TextStream::Piece piece = text_.Push(vocabulary_->Bytes(static_cast<int32_t>(id)));
    certain = piece.tokens;
    const bool ended = piece.stop.has_value();
    Take(std::move(piece), output);
    if (ended) return output;
  }
  Release(static_cast<size_t>(certain), false, output.delta);
  return output;
}

Reply::Output Reply::End() {
  Output output;
  if (text_.ended()) return output;
  TextStream::Piece piece = text_.Flush();
  const bool stopped = piece.stop.has_value();
  Take(std::move(piece), output);
  if (!stopped) {
    if (think_.has_value()) {
      ThinkSplitter::Piece rest = think_->Flush();
      output.delta.mutable_reasoning_text()->append(rest.reasoning);
      output.delta.mutable_text()->append(rest.answer);
    }
    Release(ids_.size(), true, output.delta);
  }
  return output;
}

void Reply::AppendText(const std::string& text, v1::Delta& delta) {
  if (!think_.has_value()) {
    delta.mutable_text()->append(text);
    return;
  }
  const ThinkSplitter::Piece piece = think_->Push(text);
  delta.mutable_reasoning_text()->append(piece.reasoning);
  delta.mutable_text()->append(piece.answer);
}

void Reply::Take(TextStream::Piece piece, Output& output) {
  AppendText(piece.text, output.delta);
  if (!piece.stop.has_value()) return;
  output.stop_index = piece.stop->stop_index;
  if (think_.has_value()) {
    ThinkSplitter::Piece rest = think_->Flush();
    output.delta.mutable_reasoning_text()->append(rest.reasoning);
    output.delta.mutable_text()->append(rest.answer);
  }
  Release(static_cast<size_t>(piece.tokens), true, output.delta);
}

void Reply::Release(size_t certain, bool cut, v1::Delta& delta) {
  while (!held_rounds_.empty() && released_ < certain) {
    v1::Round round = held_rounds_.front();
    const size_t kept = std::min<size_t>(round.tokens(), certain - released_);
    if (kept < round.tokens() && !cut) return;
    held_rounds_.pop_front();
    usage_.AddRound(round, static_cast<uint32_t>(kept));
    round.set_tokens(static_cast<uint32_t>(kept));
    round.set_accepted(std::min(round.accepted(), round.tokens()));
    *delta.add_rounds() = round;
    for (size_t i = 0; i < kept; ++i) {
      delta.add_token_ids(ids_[released_++]);
      if (!logprobs_) continue;
      *delta.add_logprobs() = std::move(held_logprobs_.front());
      held_logprobs_.pop_front();
    }
  }
  if (!cut) return;
  // A stop may lie before tokens that were released already only where the client skipped them.
  trimmed_ += static_cast<uint32_t>(ids_.size() - released_);
  ids_.resize(released_);
  held_rounds_.clear();
  held_logprobs_.clear();
}

}  // namespace tandem
