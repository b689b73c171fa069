#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tandem {

// Finds several stop texts in one pass over the bytes of a text (Aho-Corasick). The automaton is
// immutable; the position in it is an int that the caller keeps. Copyable.
class StopMatcher final {
 public:
  static constexpr int kNone = -1;

  // No stop texts at all is fine. INVALID_ARGUMENT for one that is empty or not valid UTF-8, naming
  // its index.
  static absl::StatusOr<StopMatcher> Create(absl::Span<const std::string> stops);

  // The position before any text.
  static constexpr int kStart = 0;
  // The position after one more byte. Amortised constant time.
  int Advance(int position, uint8_t byte) const;
  // The index of the stop text that ends here, or kNone. Of several, the one that starts first (the
  // longest); of equal ones the first in the list.
  int Match(int position) const { return nodes_[position].match; }
  size_t StopSize(int stop_index) const { return stop_sizes_[stop_index]; }
  // A stop text that ends here is not wanted: the position from which only longer ones, or later
  // ones, can follow.
  int Decline(int position) const;
  // Length of the longest suffix of the text that is a prefix of a stop text; a proper prefix where
  // nothing matches and after Decline.
  size_t Depth(int position) const { return nodes_[position].depth; }

 private:
  struct Node {
    uint8_t byte = 0;      // leads here from the parent
    int first_child = 0;   // 0: none
    int next_sibling = 0;  // 0: none
    int fail = 0;          // the longest proper suffix that is in the trie
    int match = kNone;
    size_t depth = 0;
  };

  StopMatcher() = default;
  int Child(int node, uint8_t byte) const;
  void Insert(const std::string& stop, int stop_index);
  void Link();

  std::vector<Node> nodes_;         // [nodes] the root is node 0
  std::vector<size_t> stop_sizes_;  // [stops] bytes
};

}  // namespace tandem
