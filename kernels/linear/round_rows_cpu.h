#pragma once

#include "kernels/linear/linear.h"

namespace tandem {

class ThreadPool;

// The rows of an op as Matrix::rounded_inputs makes them: rounded [M, K], scales [M].
void RoundRowsCpu(const LinearArgs& args, float* rounded, float* scales, ThreadPool& pool);

// One of them: to [cols]; the result is its scale.
float RoundRow(const float* x, int cols, float* to);

}  // namespace tandem
