#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// A drafter's choice: o = LN_lo(x), eps 1e-5; logits = head · o, the base model's head;
// tokens = draft_vocab[argmax over i < N of logits[draft_vocab[i]]], a tie takes the lower i, a NaN
// never wins. Rows are independent.
struct DraftHeadArgs {
  int rows = 0;   // R
  int width = 0;  // C
  int vocab = 0;  // V

  View<const float> x;              // [R, C]
  View<const float> lo_weight;      // [C]
  View<const float> lo_bias;        // [C]
  Matrix head;                      // [V, C]
  View<const int32_t> draft_vocab;  // [N] distinct ids < V, most frequent first

  View<float> o;         // [R, C] out, what the next depth starts from
  View<float> logits;    // [R, V] out
  View<int32_t> tokens;  // [R] out
};

void DraftHeadCpu(const DraftHeadArgs& args, ThreadPool& pool);

}  // namespace tandem
