#pragma once

#include <cstddef>

#include "kernels/device_cuda.h"
#include "kernels/linear/linear.h"

namespace tandem {

// What rows are rounded to. kBf16 and kFloat hold the values of E4M3 where the matrix has
// rounded_inputs.
enum class RowType { kFloat, kBf16, kE4m3 };

// The rows of an op as its kernel reads them instead of LinearArgs::x.
struct RoundedRows {
  const void* rows = nullptr;     // [M, stride]; null: x is read as it is
  size_t stride = 0;              // K and zeros up to a multiple of kRoundedStep
  const float* scales = nullptr;  // [M], of the sums; null without rounded_inputs
};
inline constexpr int kRoundedStep = 64;

// Rounds the rows of the first `count` jobs, at most kMostLinearJobs of equal rows, into the
// device's scratch, where they stay until the next call: those of matrices with rounded_inputs, and
// with `all` the others as well, which are just rounded to bf16.
void RoundRowsCuda(const LinearArgs* jobs, int count, RowType type, bool all,
                   const DeviceCuda& device, RoundedRows* rounded);

// Bytes of that scratch for `rows` rows of jobs with `inputs` inputs together.
size_t RoundedRowsBytes(int rows, size_t inputs);

}  // namespace tandem
