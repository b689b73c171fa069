#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/stop_matcher.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem {

// Turns the tokens of one generated sequence into text, token by token, and ends it at the first
// stop text.
//
// Text is delivered as early as it is certain: held back are an incomplete code point (3 bytes at
// most) and the longest suffix that may become a stop text. Bytes that cannot become UTF-8 are
// delivered as U+FFFD at once. Stop texts are matched on the decoded text. The one that ends first
// wins; of several that end at the same byte, the one that starts first; of equal ones, the first
// in the list. Time is linear in the bytes pushed, memory is bounded by the longest stop text.
// Copyable: a copy continues alike.
class TextStream final {
 public:
  struct Options {
    std::vector<std::string> stops = {};
    bool include_stop = false;  // the stop text is delivered too
    // Stop texts that end within the first `min_tokens` tokens are ordinary text.
    int64_t min_tokens = 0;
  };

  struct Stop {
    int stop_index = 0;  // into Options::stops
    // Tokens all of whose bytes lie before the stop text.
    int64_t tokens_before = 0;
    // A token holds bytes on both sides of the cut: the last text before the stop text and the
    // start of it. Then the kept tokens decode to more than the delivered text.
    bool straddled = false;
  };

  struct Piece {
    std::string text = {};  // valid UTF-8, to be appended to what was delivered before
    // Tokens since the start of the stream that are certain: all of their bytes are delivered and
    // no stop can take them back. Ids, log-probabilities and usage are cut here. With `stop`, the
    // tokens that belong to the final text: tokens_before and the straddling one; with include_stop
    // all up to the end of the stop text.
    int64_t tokens = 0;
    std::optional<Stop> stop = {};
  };

  // INVALID_ARGUMENT for a stop text that is empty or not valid UTF-8, naming its index, or a
  // negative min_tokens.
  static absl::StatusOr<TextStream> Create(const Options& options);

  // One more token with these bytes (none for the end of a document). After a stop or Flush nothing
  // more is delivered and tokens are no longer counted.
  Piece Push(absl::string_view token_bytes);
  // The sequence ended without a stop text: delivers what was held back, an incomplete code point
  // as U+FFFD. The replacement is matched like other text, so even this piece may carry a stop.
  Piece Flush();

  bool ended() const { return ended_; }

 private:
  // One byte of decoded text that is not delivered yet.
  struct HeldByte {
    char byte;
    uint64_t origin;  // offset in the token bytes where its code point comes from
  };

  TextStream(StopMatcher matcher, bool include_stop, int64_t min_tokens);
  // Appends to what is held back one code point that stands for `source_size` token bytes, and sets
  // stop_ when a stop text is complete. Returns the text that became certain.
  std::string Append(absl::string_view code_point, uint64_t source_size);
  // The text that a stop text at the end of what is held back leaves; nothing is held any more.
  std::string EndAt(int stop_index);
  // Takes off what is held back, except the last `keep` bytes.
  std::string Release(size_t keep);
  // Counts the tokens that end at or before `offset` as certain.
  void SettleTokens(uint64_t offset);

  StopMatcher matcher_;
  bool include_stop_;
  int64_t min_tokens_;
  Utf8Decoder decoder_;
  int position_ = StopMatcher::kStart;
  bool ended_ = false;
  std::optional<Stop> stop_;
  int64_t pushed_tokens_ = 0;
  int64_t certain_tokens_ = 0;
  uint64_t certain_end_ = 0;    // offset behind the last byte of the certain tokens
  uint64_t decoded_bytes_ = 0;  // token bytes that became text, delivered or held
  std::deque<HeldByte> held_;
  std::deque<uint64_t> token_ends_;  // [pushed - certain] offset behind the last byte of each token
};

}  // namespace tandem
