#include "kernels/linear/round_rows_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/linear/quantize.h"
#include "kernels/thread_pool.h"

namespace tandem {
namespace {

constexpr size_t kMostPieces = 256;

}  // namespace

float RoundRow(const float* x, int cols, float* to) {
  float largest = 0.0f;
  for (int k = 0; k < cols; ++k) largest = std::max(largest, std::fabs(x[k]));
  const float scale = ScaleOf(largest, 448.0f);
  for (int k = 0; k < cols; ++k) to[k] = RoundToE4m3(std::clamp(x[k] / scale, -448.0f, 448.0f));
  return scale;
}

void RoundRowsCpu(const LinearArgs& args, float* rounded, float* scales, ThreadPool& pool) {
  const size_t rows = static_cast<size_t>(args.rows), cols = static_cast<size_t>(args.weight.cols);
  const size_t pieces = std::min(rows, kMostPieces);
  pool.ParallelFor(static_cast<int>(pieces), [&](int piece) {
    const size_t p = static_cast<size_t>(piece);
    for (size_t row = rows * p / pieces; row < rows * (p + 1) / pieces; ++row) {
      scales[row] =
          RoundRow(args.x.data + row * args.x_stride, args.weight.cols, rounded + row * cols);
    }
  });
}

}  // namespace tandem
