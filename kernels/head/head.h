#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// h = LN_out(x); logits = head h for the wanted rows, h itself for all rows where a drafter wants
// it.
struct HeadArgs {
  int rows = 0;                    // T
  int width = 0;                   // C
  View<const float> x;             // [T, C]
  View<const float> ln_weight;     // [C]
  View<const float> ln_bias;       // [C]
  Matrix head;                     // [V, C]
  View<const int32_t> logit_rows;  // [R] ascending rows of x; may be empty
  View<float> h;                   // [R, C] scratch
  View<float> logits;              // [R, V] out
  View<float> tap;        // [T, tap_stride]: the first C of each row are written; null: not wanted
  size_t tap_stride = 0;  // in floats
};

void HeadCpu(const HeadArgs& args, ThreadPool& pool);

}  // namespace tandem
