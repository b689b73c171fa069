#pragma once

#include <cstddef>

namespace tandem {

// One token shift of one layer in every slot: the committed previous row, and the log of the last
// pass's provisional rows. Replaying n > 0 entries makes entry n - 1 the committed row.
struct ShiftState {
  float* committed = nullptr;   // [S] x [C]
  size_t committed_stride = 0;  // between slots, in floats
  float* log = nullptr;         // [S] x [kMaxDrafts, C]
  size_t log_stride = 0;        // between slots, in floats
};

}  // namespace tandem
