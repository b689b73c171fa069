#pragma once

#include <cstdint>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// What a drafter's row starts from, for R rows of one depth:
//   depth 1  : u = fproj · [LN_lh(h) ; LN_lf0(m1) ; LN_lf1(m2)], the features of a base position
//   depth > 1: u = LN_lhd(o), the drafter's own output one depth before
//   x = LN_ln0(proj · [u ; LN_le(e)] + dep), e = the row of the base model's LN0(emb) table
// All LayerNorms have eps 1e-5. Rows are independent: a row's result depends on its inputs only.
struct DraftFuseArgs {
  int rows = 0;   // R
  int width = 0;  // C

  // Depth 1, else null: [R] pointers to [3C] rows (h, m1, m2).
  View<const float* const> features;
  // Depth > 1, else null: [R, C].
  View<const float> previous;
  View<const int32_t> tokens;   // [R] token after the row's position, < V
  View<const float> embedding;  // [V, C] LN0(emb)
  View<const float> depth;      // [C] dep of this depth

  View<const float> lh_weight;  // [C], as all below
  View<const float> lh_bias;
  View<const float> lf0_weight;
  View<const float> lf0_bias;
  View<const float> lf1_weight;
  View<const float> lf1_bias;
  View<const float> lhd_weight;  // null where there is no depth adapter
  View<const float> lhd_bias;
  View<const float> le_weight;
  View<const float> le_bias;
  View<const float> ln0_weight;
  View<const float> ln0_bias;
  Matrix fproj;  // [C, 3C]
  Matrix proj;   // [C, 2C]

  View<float> x;        // [R, C] out
  View<float> scratch;  // [R, 5C]
};

void DraftFuseCpu(const DraftFuseArgs& args, ThreadPool& pool);

}  // namespace tandem
