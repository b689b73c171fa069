#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tandem {

// One pass of the model: the tokens of B lanes, packed. A lane is one sequence in one pass: certain
// tokens first, then `provisional` drafts. Prefill: many certain tokens, no drafts; plain decode:
// one certain token; verify: one certain token and K drafts. A pass may mix all three. Refilled by
// its owner for every step.
struct DecodeBatch {
  std::vector<int32_t> tokens;       // [T]
  std::vector<int32_t> offsets;      // [B + 1]
  std::vector<int32_t> slots;        // [B], distinct
  std::vector<int32_t> provisional;  // [B]
  std::vector<int32_t> logit_rows;   // [R] rows of `tokens` whose logits are wanted, ascending
  std::vector<int32_t>
      first_logit;  // [B] index into logit_rows of the lane's first wanted row, or -1

  void Clear();

  // Appends a lane. With `choose`, logits are wanted for its last certain row and all its
  // provisional rows. Needs 1 <= certain.size(), drafts.size() <= kMaxDrafts.
  void AddLane(int slot, absl::Span<const int32_t> certain, absl::Span<const int32_t> drafts,
               bool choose);

  int rows() const { return static_cast<int>(tokens.size()); }
  int lanes() const { return static_cast<int>(slots.size()); }
};

}  // namespace tandem
