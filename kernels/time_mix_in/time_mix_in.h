#pragma once

#include "kernels/lanes.h"
#include "kernels/linear/linear.h"
#include "kernels/shift.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// The way into time mixing: h = LN1(x), token shift, six mixes, r, k, v and the first low-rank
// factors.
//   d = h[previous row of the lane] - h          (before the lane's first row: the committed shift)
//   r = W_r (h + d x_r)   k = W_k (h + d x_k)   v = W_v (h + d x_v)
//   w_low = tanh((h + d x_w) w1)   a_low = (h + d x_a) a1   v_low = (h + d x_v) v1   g_low =
//   sigmoid((h + d x_g) g1)
// Replays, commits and logs the shift as Lanes says.
struct TimeMixInArgs {
  int rows = 0;   // T
  int width = 0;  // C
  Lanes lanes;
  ShiftState shift;
  View<const float> x;            // [T, C]
  View<const float> ln_weight;    // [C]
  View<const float> ln_bias;      // [C]
  View<const float> mix;          // [6, C]: x_r, x_w, x_k, x_v, x_a, x_g
  Matrix receptance, key, value;  // [C, C]
  Matrix w1, a1, v1, g1;          // [D, C]; v1 has no rows in layer 0
  View<float> h;                  // [T, C] scratch
  View<float> mixed;              // [6, T, C] scratch
  View<float> r, k, v;            // [T, C] out
  View<float> w_low;              // [T, Dw] out
  View<float> a_low;              // [T, Da] out
  View<float> v_low;              // [T, Dv] out; not written in layer 0
  View<float> g_low;              // [T, Dg] out
};

void TimeMixInCpu(const TimeMixInArgs& args, ThreadPool& pool);

}  // namespace tandem
