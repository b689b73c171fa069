#pragma once

#include <cstddef>

#include "kernels/lanes.h"
#include "kernels/view.h"

namespace tandem {

// One token shift of one layer in every slot: the committed previous row, and the log of the last
// pass's provisional rows. Replaying n > 0 entries makes entry n - 1 the committed row.
struct ShiftState {
  float* committed = nullptr;   // [S] x [C]
  size_t committed_stride = 0;  // between slots, in floats
  float* log = nullptr;         // [S] x [kMaxDrafts, C]
  size_t log_stride = 0;        // between slots, in floats
};

// What both mixing ops do before their projections: layer norm, token shift and n mixes with the
// previous row of the lane; before its first row stands the committed shift, after the replay of
// its log. Commits the last certain row of each lane and logs the provisional rows.
struct ShiftMix {
  int rows = 0;   // T
  int width = 0;  // C
  int mixes = 0;  // n
  Lanes lanes;
  ShiftState shift;
  View<const float> x;          // [T, C]
  View<const float> ln_weight;  // [C]
  View<const float> ln_bias;    // [C]
  View<const float> mix;        // [n, C]
  View<float> h;                // [T, C] scratch: LN(x), where a backend keeps it
  View<float> mixed;            // [n, T, C] out: h + (previous h - h) mix
};

// Of the arguments of a mixing op.
template <class Args>
ShiftMix ShiftMixOf(const Args& args, int mixes) {
  return {.rows = args.rows,
          .width = args.width,
          .mixes = mixes,
          .lanes = args.lanes,
          .shift = args.shift,
          .x = args.x,
          .ln_weight = args.ln_weight,
          .ln_bias = args.ln_bias,
          .mix = args.mix,
          .h = args.h,
          .mixed = args.mixed};
}

}  // namespace tandem
