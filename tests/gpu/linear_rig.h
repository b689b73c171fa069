#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/round_rows_cpu.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {

// A kind of matrix: format, whether it is packed for sparse inputs, and whether it rounds them.
struct LinearKind {
  WeightFormat format = WeightFormat::kBf16;
  bool sparse_inputs = false;
  bool rounded_inputs = false;
};

inline std::vector<LinearKind> LinearKinds() {
  std::vector<LinearKind> kinds;
  for (const bool sparse : {false, true}) {
#define TANDEM_WEIGHT_FORMAT(name, folder) \
  kinds.push_back({.format = WeightFormat::k##name, .sparse_inputs = sparse});
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
    kinds.push_back(
        {.format = WeightFormat::kFp8, .sparse_inputs = sparse, .rounded_inputs = true});
  }
  return kinds;
}

inline std::string KindName(const LinearKind& kind) {
  static const char* const kNames[] = {
#define TANDEM_WEIGHT_FORMAT(name, folder) #name,
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
  };
  return std::string(kNames[static_cast<int>(kind.format)]) + (kind.sparse_inputs ? "Sparse" : "") +
         (kind.rounded_inputs ? "Rounded" : "");
}

// The same random matrix on the device and, as its sums see it, on the host.
class LinearWeight final {
 public:
  LinearWeight(Backend& cuda, Random& random, const LinearKind& kind, int rows, int cols)
      : scales(static_cast<size_t>(rows)), values(static_cast<size_t>(rows) * cols) {
    std::vector<uint16_t> bits;
    for (const float value : random.Vector(values.size(), -1.0f, 1.0f))
      bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    Matrix host = {.format = kind.format, .rows = rows, .cols = cols};
    std::vector<uint64_t> memory(LinearPackedBytes(kind.format, rows, cols) / 8 + 1);
    LinearPack(memory.data(), kind.format, bits.data(), rows, cols);
    host.data = memory.data();
    for (int n = 0; n < rows; ++n) {
      scales[static_cast<size_t>(n)] =
          LinearUnpackRow(host, n, values.data() + static_cast<size_t>(n) * cols);
    }
    matrix = {.format = kind.format,
              .rows = rows,
              .cols = cols,
              .sparse_inputs = kind.sparse_inputs,
              .rounded_inputs = kind.rounded_inputs};
    void* to = cuda.Allocate(cuda.PackedBytes(matrix));
    EXPECT_TRUE(cuda.Pack(to, matrix, bits.data()));
    matrix.data = to;
  }

  float At(int n, int k) const {
    return values[static_cast<size_t>(n) * static_cast<size_t>(matrix.cols) + k];
  }
  // Output n of a row, and the sum of the magnitudes of its terms.
  struct Sum {
    double value = 0.0;
    double magnitude = 0.0;
  };
  Sum Times(int n, const float* x) const {
    Sum sum;
    std::vector<float> rounded(x, x + matrix.cols);
    double scale = scales[static_cast<size_t>(n)];
    if (matrix.rounded_inputs) scale *= RoundRow(x, matrix.cols, rounded.data());
    for (int k = 0; k < matrix.cols; ++k) {
      const double term = static_cast<double>(rounded[static_cast<size_t>(k)]) * At(n, k) * scale;
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
    return sum;
  }

  // What a sum may be off, relative to the magnitudes of its terms: the activations' two pieces
  // leave 2^-18; every addition of 16 products, two for 16 inputs, and every later addition may cut
  // off what lies 22 bits below.
  double Tolerance() const {
    return std::ldexp(1.0, -18) + (matrix.cols / 8 + 20) * std::ldexp(1.0, -22);
  }

  Matrix matrix;              // on the device
  std::vector<float> scales;  // [rows]
  std::vector<float> values;  // [rows, cols]
};

// x [rows, cols] with most inputs zero where the matrix is made for it, and one row of zeros.
inline std::vector<float> LinearInputs(Random& random, const LinearKind& kind, int rows, int cols) {
  std::vector<float> x = random.Vector(static_cast<size_t>(rows) * cols, -2.0f, 2.0f);
  if (!kind.sparse_inputs) return x;
  for (float& value : x) {
    if (random.Int(0, 9) < 8) value = random.Int(0, 1) == 0 ? 0.0f : -0.0f;
  }
  if (rows > 2) std::fill_n(x.begin() + 2 * static_cast<std::ptrdiff_t>(cols), cols, 0.0f);
  return x;
}

// Rows [0, rows) of x times the matrix, every output written by the device.
inline std::vector<float> RunOnDevice(Backend& cuda, const LinearWeight& weight,
                                      View<const float> x, size_t x_stride, int rows) {
  OnDevice device(cuda);
  const size_t outputs = static_cast<size_t>(weight.matrix.rows);
  cuda.ReserveLinear({.rows = rows, .inputs = static_cast<size_t>(weight.matrix.cols)});
  const View<float> y = device.Out<float>(static_cast<size_t>(rows) * outputs);
  cuda.Linear({.rows = rows,
               .weight = weight.matrix,
               .x = x,
               .x_stride = x_stride,
               .y = y,
               .y_stride = outputs});
  return device.Read(y);
}

}  // namespace tandem
