#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/tokenizer/text_stream.h"
#include "common/tokenizer/think_splitter.h"
#include "common/tokenizer/vocabulary.h"
#include "services/router/usage.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

struct ReplyOptions {
  std::vector<std::string> stops = {};
  bool include_stop = false;
  uint32_t min_tokens = 0;
  // Chat: reasoning and answer are parted and the answer's leading space goes away.
  std::optional<ThinkMode> think = {};
  bool logprobs = false;  // every token comes with one
};

// The text side of one reply, from any number of verifiers. A token's id, logprob and round are
// released once no stop text can take it back, whole rounds at a time; its text may come earlier.
// Text, ids, logprobs and usage end at the same token.
class Reply final {
 public:
  // What the client may see now.
  struct Output {
    v1::Delta delta = {};
    std::optional<int> stop_index = {};  // a stop text ended the reply
  };

  // `vocabulary` outlives the reply. Errors as TextStream::Create.
  static absl::StatusOr<Reply> Create(const Vocabulary* vocabulary, const ReplyOptions& options);

  // Tokens of the reply that the client has already; before everything else. INVALID_ARGUMENT where
  // they hold a stop text, so that the reply had ended.
  absl::Status Skip(const std::vector<uint32_t>& ids);
  // A verifier's delta: ids, their rounds and logprobs. Ignored after a stop. INTERNAL where rounds
  // or logprobs do not fit the ids.
  absl::StatusOr<Output> Add(const v1::Delta& delta);
  // The reply ends without a stop text: everything that was held back. Even this may carry a stop.
  Output End();

  // All tokens of the reply that verifiers gave, with the skipped ones: what a resumed request has
  // to bring along. After a stop, only the kept ones.
  const std::vector<uint32_t>& ids() const { return ids_; }
  // Tokens that came after the one that a stop text was cut at.
  uint32_t trimmed() const { return trimmed_; }
  UsageCounter& usage() { return usage_; }

 private:
  Reply(const Vocabulary* vocabulary, TextStream text, const ReplyOptions& options);
  absl::Status Check(const v1::Delta& delta) const;
  void AppendText(const std::string& text, v1::Delta& delta);
  void Take(TextStream::Piece piece, Output& output);
  // Releases the whole rounds among the first `certain` tokens of the reply; with `cut`, also the
  // first part of the round that `certain` lies in, and nothing is left afterwards.
  void Release(size_t certain, bool cut, v1::Delta& delta);

  const Vocabulary* vocabulary_;
  TextStream text_;
  std::optional<ThinkSplitter> think_;
  bool logprobs_;
  std::vector<uint32_t> ids_;                   // [tokens]
  std::deque<v1::TokenLogprob> held_logprobs_;  // of the tokens that are not released
  std::deque<v1::Round> held_rounds_;           // of the tokens that are not released
  size_t released_ = 0;                         // tokens
  uint32_t trimmed_ = 0;
  UsageCounter usage_;
};

}  // namespace tandem
