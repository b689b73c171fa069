#pragma once

#include "kernels/lanes.h"
#include "kernels/linear/linear.h"
#include "kernels/shift.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// h = LN2(x), q = h + (previous row of the lane - h) x_k, act = relu(W_k q)^2. Before the lane's
// first row stands the committed shift. Replays, commits and logs the shift as Lanes says.
struct ChannelMixKeyArgs {
  int rows = 0;   // T
  int width = 0;  // C
  Lanes lanes;
  ShiftState shift;
  View<const float> x;          // [T, C]
  View<const float> ln_weight;  // [C]
  View<const float> ln_bias;    // [C]
  View<const float> mix;        // [C]: x_k
  Matrix key;                   // [F, C]
  View<float> h;                // [T, C] scratch
  View<float> mixed;            // [T, C] scratch
  View<float> act;              // [T, F] out
};

void ChannelMixKeyCpu(const ChannelMixKeyArgs& args, ThreadPool& pool);

}  // namespace tandem
