#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/row_tap.h"
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
  RowTap tap;                      // of LN_out(x), all rows
};

void HeadCpu(const HeadArgs& args, ThreadPool& pool);

}  // namespace tandem
