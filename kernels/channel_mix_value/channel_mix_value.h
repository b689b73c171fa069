#pragma once

#include <cstddef>

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// x = x + W_v act, and a copy of the new x where a drafter taps this layer.
struct ChannelMixValueArgs {
  int rows = 0;           // T
  Matrix value;           // [C, F]
  View<const float> act;  // [T, F]
  View<float> x;          // [T, C] in and out
  View<float> tap;        // [T, tap_stride]: the first C of each row are written; null: not wanted
  size_t tap_stride = 0;  // in floats
};

void ChannelMixValueCpu(const ChannelMixValueArgs& args, ThreadPool& pool);

}  // namespace tandem
