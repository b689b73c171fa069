#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/view.h"

namespace tandem {

class ThreadPool;

enum class WeightFormat : int32_t {
#define TANDEM_WEIGHT_FORMAT(name, folder) k##name,
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
};

// A weight matrix [rows, cols] = [outputs, inputs] in the memory layout of one backend; see
// Backend::Pack. The layout depends on the other fields only, so a process that maps another's
// packed memory can use it as it is.
struct Matrix {
  WeightFormat format = WeightFormat::kBf16;
  int rows = 0;  // outputs
  int cols = 0;  // inputs
  // Packed for inputs most of which are zero, as after Epilogue::kReluSquare: a backend may skip
  // their terms and read only the weights of the others. The result is the same.
  bool sparse_inputs = false;
  // Fp8 only: inputs are rounded to E4M3 as well, see LinearArgs. Says nothing about the layout.
  bool rounded_inputs = false;
  const void* data = nullptr;
};

// A matrix [N, K] that is rounded already (kernels/linear/quantize.h), as it is before packing. A
// weight is its code's value times its scale.
struct MatrixCodes {
  // [N, K]: E4M3 without NaN of Fp8, two's complement in +-127 of Int8, u of Int6 in 1 ... 63
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;           // [N], of Fp8 and Int8
  const uint16_t* group_scales = nullptr;  // [N, ceil(K / 64)] bf16, of Int6
};

// What happens to a finished sum before it is stored.
enum class Epilogue : int32_t {
  kStore,       // y = s
  kAdd,         // y = y + s
  kReluSquare,  // y = max(s, 0)^2
  kTanh,        // y = tanh(s)
  kSigmoid,     // y = 1 / (1 + e^-s)
};

// y = epilogue(x Wᵀ), W as rounded to its format (kernels/linear/quantize.h). Every sum is
// ((0 + x[0]·w[0]) + x[1]·w[1]) + ... in ascending order of the input, each step one fused
// multiply-add in fp32; this order depends on nothing, so a row's result depends neither on the
// other rows nor on the vector width or number of threads. With Fp8 and Int8 w are the codes, and
// the output's scale multiplies the finished sum; with Int6 w = code times the group's scale, which
// fp32 holds exactly. Another backend may use another order of its own that depends on K and the
// format only, and pieces of x that give at least 16 of its bits. Weights are finite.
//
// With Matrix::rounded_inputs a row x[m] counts as E4M3(x[m] / s) of the scale s = max |x[m]| /
// 448, or 1 where that is 0, rounded to nearest even; the finished sum is multiplied by s, then by
// the output's scale. So the rounding of a row depends on that row only. Zeros stay zeros, NaN
// stays NaN, and an infinite input makes its row NaN.
struct LinearArgs {
  int rows = 0;         // M >= 0
  Matrix weight;        // [N, K]
  View<const float> x;  // [M, x_stride], the first K of each row are read
  size_t x_stride = 0;  // >= K
  View<float> y;        // [M, y_stride], the first N of each row are written; must not overlap x
  size_t y_stride = 0;  // >= N
  Epilogue epilogue = Epilogue::kStore;
  // Set by a backend for rows that it has rounded: [M], the scales of their sums. Null otherwise.
  const float* x_scales = nullptr;
};

// An op on rows that follow each other without gaps: x [rows, K], y [rows, N].
inline LinearArgs WholeRows(int rows, const Matrix& weight, View<const float> x, View<float> y,
                            Epilogue epilogue = Epilogue::kStore) {
  return {.rows = rows,
          .weight = weight,
          .x = x,
          .x_stride = static_cast<size_t>(weight.cols),
          .y = y,
          .y_stride = static_cast<size_t>(weight.rows),
          .epilogue = epilogue};
}

// The largest linear ops that will be enqueued; see Backend::ReserveLinear.
struct LinearReserve {
  int rows = 0;       // M
  size_t inputs = 0;  // K, of the matrices that one op multiplies with together
};

void LinearCpu(const LinearArgs& args, ThreadPool& pool);

}  // namespace tandem
