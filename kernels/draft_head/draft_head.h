#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// A drafter's choice: o = LN_lo(x), eps 1e-5; logits = head · o;
// tokens = draft_vocab[argmax over i < N of logits[head_rows[i]]], a tie takes the lower i, a NaN
// never wins. Rows are independent. The head may be the base model's, with head_rows = draft_vocab,
// or one that holds the rows of the draft vocabulary only.
struct DraftHeadArgs {
  int rows = 0;   // R
  int width = 0;  // C

  View<const float> x;              // [R, C]
  View<const float> lo_weight;      // [C]
  View<const float> lo_bias;        // [C]
  Matrix head;                      // [M, C]
  View<const int32_t> head_rows;    // [N] distinct rows of head < M, one for each draft token
  View<const int32_t> draft_vocab;  // [N] distinct ids, most frequent first

  View<float> o;         // [R, C] out, what the next depth starts from
  View<float> logits;    // [R, M] out
  View<int32_t> tokens;  // [R] out
};

void DraftHeadCpu(const DraftHeadArgs& args, ThreadPool& pool);

}  // namespace tandem
