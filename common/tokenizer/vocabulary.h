#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

struct VocabularyLine;

// Id 0 ends a document. It has no text, is in no vocabulary file and never comes out of Encode.
inline constexpr int32_t kEndOfText = 0;

// A vocabulary in the RWKV World text format, one token a line: `<id> <Python literal> <byte
// length>`. Immutable after Parse, so any number of threads may use one object.
class Vocabulary final {
 public:
  // The largest number of ids any vocabulary may have.
  static constexpr int32_t kMaxIds = 1 << 20;

  // Parses the text of a whole vocabulary file. `name` is what errors call the file; they also name
  // the line. Ids must be ascending from 1 (gaps are allowed) and below `id_limit`, the V of the
  // model; every token must be unique and not empty, every length field true, and all 256 single
  // bytes present. INVALID_ARGUMENT otherwise, or when `id_limit` is not in 1..kMaxIds.
  static absl::StatusOr<Vocabulary> Parse(absl::string_view file_text, absl::string_view name,
                                          int32_t id_limit = kMaxIds);

  // The ids of `text` (any bytes): at each position the longest token that fits. Decode gives the
  // text back.
  std::vector<int32_t> Encode(absl::string_view text) const;

  // The bytes of one token, possibly not valid UTF-8; valid as long as this object, also after a
  // move. Empty for kEndOfText, the three bytes of U+FFFD for every other id without text,
  // out-of-range ids included.
  absl::string_view Bytes(int32_t id) const;

  // The concatenated Bytes of `ids`, which need not be valid UTF-8.
  std::string Decode(absl::Span<const int32_t> ids) const;

  // Number of tokens in the file.
  size_t size() const { return size_; }
  // The largest id in the file; ids above it, up to the V of the model, have no text.
  int32_t max_id() const { return static_cast<int32_t>(ends_.size()) - 1; }

 private:
  // A node of the trie over all tokens. The children of a node are neighbours, in the order of
  // their bytes; the children of the root are all 256 bytes, so the node of byte b is 1 + b.
  struct Node {
    int32_t id = kEndOfText;  // the token that ends here, kEndOfText if none
    int32_t first_child = 0;
    int32_t child_count = 0;
  };

  Vocabulary() = default;
  absl::Status Add(const VocabularyLine& line, int32_t id_limit);
  void BuildTrie();

  size_t size_ = 0;
  std::vector<char> bytes_;  // all tokens in the order of their ids
  std::vector<uint32_t>
      ends_;  // [max_id + 1] where token i ends in bytes_; it starts where i - 1 ends
  std::vector<Node> nodes_;      // [nodes] breadth first, the root is node 0
  std::vector<uint8_t> labels_;  // [nodes] the byte that leads to the node
};

}  // namespace tandem
