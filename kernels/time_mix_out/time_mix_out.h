#pragma once

#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// x = x + W_o y.
struct TimeMixOutArgs {
  int rows = 0;         // T
  Matrix output;        // [C, C]
  View<const float> y;  // [T, C]
  View<float> x;        // [T, C] in and out
};

void TimeMixOutCpu(const TimeMixOutArgs& args, ThreadPool& pool);

}  // namespace tandem
