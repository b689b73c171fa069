#pragma once

#include "kernels/linear/linear.h"
#include "kernels/row_tap.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// x = x + W_v act, and a copy of the new x where a drafter taps this layer.
struct ChannelMixValueArgs {
  int rows = 0;           // T
  Matrix value;           // [C, F]
  View<const float> act;  // [T, F]
  View<float> x;          // [T, C] in and out
  RowTap tap;             // of the new x
};

void ChannelMixValueCpu(const ChannelMixValueArgs& args, ThreadPool& pool);

}  // namespace tandem
