#pragma once

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// The channel-mix half of a drafter's block, its token shift given by the caller:
//   x = x + W_v · relu(W_k · (z + (z_prev - z) ⊙ x_k))²
// Rows are independent.
struct DraftMixArgs {
  int rows = 0;   // R
  int width = 0;  // C

  View<const float* const> z;       // [R] pointers to [C] rows
  View<const float* const> z_prev;  // [R] pointers to [C] rows
  View<const float> x_k;            // [C]
  Matrix key;                       // [4C, C]
  Matrix value;                     // [C, 4C]

  View<float> x;        // [R, C] in and out
  View<float> scratch;  // [R, 6C]
};

void DraftMixCpu(const DraftMixArgs& args, ThreadPool& pool);

}  // namespace tandem
