#pragma once

#include <cstddef>

#include "kernels/lanes.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// The matrix state of one layer in every slot. S is stored [H, 64 key, 64 value]. A log entry holds
// what one token does to S, S = S D + u b + v k: five rows decay, k, v, u, b of C each.
struct WkvState {
  float* committed = nullptr;   // [S] x [H, 64 key, 64 value]
  size_t committed_stride = 0;  // between slots, in floats
  float* log = nullptr;         // [S] x [kMaxDrafts, 5, C]
  size_t log_stride = 0;        // between slots, in floats
};

// Time mixing between the projections, per head of 64 channels:
//   D = exp(-e^-0.5 sigmoid(w0 + w_low w2))   a = sigmoid(a0 + a_low a2)   g = g_low g2
//   kappa = L2norm(k k_k)   k = k (1 + (a - 1) k_a)
//   first layer: v_first = v; others: v = v + (v_first - v) sigmoid(v0 + v_low v2)
//   u = -S kappa   b = kappa a   S = S D + u b + v k   y = S r
//   y = (GroupNorm(y; eps 64e-5) + (sum r k r_k) v) g
// Replays, commits and logs S as Lanes says.
struct TimeMixCoreArgs {
  int rows = 0;   // T
  int width = 0;  // C = 64 H
  Lanes lanes;
  WkvState wkv;
  Matrix w2, a2, v2, g2;                         // [C, D]; v2 has no rows in the first layer
  View<const float> w0, a0, v0;                  // [C]; v0 empty in the first layer
  View<const float> k_k, k_a;                    // [C]
  View<const float> r_k;                         // [H, 64]
  View<const float> ln_weight, ln_bias;          // [C], of the group norm
  View<const float> r;                           // [T, C]
  View<float> k, v;                              // [T, C]; may be changed as above
  View<const float> w_low, a_low, v_low, g_low;  // [T, D]
  View<float> v_first;  // [T, C], written by the first layer, read by the others
  View<float> scratch;  // [4, T, C]
  View<float> y;        // [T, C] out
};

void TimeMixCoreCpu(const TimeMixCoreArgs& args, ThreadPool& pool);

}  // namespace tandem
