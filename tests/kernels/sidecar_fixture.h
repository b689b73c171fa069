#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

using Doubles = std::vector<double>;

// Random inputs of the drafter's ops, each as the op reads it and as doubles for the loops that
// check it.
class SidecarFixture : public ::testing::Test {
 protected:
  static constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();

  struct Weights {
    Matrix matrix;   // packed
    Doubles values;  // [rows, cols]
  };

  // Vectors of mean `mean` and deviation `spread`.
  std::vector<float> RandomVector(size_t count, float spread = 1.0f, float mean = 0.0f) {
    std::normal_distribution<float> normal(mean, spread);
    std::vector<float> vector(count);
    for (float& value : vector) value = normal(random_);
    return vector;
  }

  Weights RandomMatrix(int rows, int cols, bool sparse_inputs = false) {
    std::vector<uint16_t> bf16(static_cast<size_t>(rows) * cols);
    Doubles values;
    for (uint16_t& bits : bf16) {
      const float value = RandomVector(1, 1.0f / std::sqrt(static_cast<float>(cols)))[0];
      bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
    Matrix matrix{.rows = rows, .cols = cols, .sparse_inputs = sparse_inputs};
    void* memory = backend_->Allocate(backend_->PackedBytes(matrix));
    EXPECT_TRUE(backend_->Pack(memory, matrix, bf16.data()));
    matrix.data = memory;
    return {.matrix = matrix, .values = std::move(values)};
  }

  static View<const float> Of(const std::vector<float>& vector) {
    return {vector.data(), vector.size()};
  }
  static View<float> Of(std::vector<float>& vector) { return {vector.data(), vector.size()}; }

  std::mt19937 random_{42};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
};

inline Doubles Multiply(const Doubles& matrix, const Doubles& x) {
  Doubles y(matrix.size() / x.size());
  for (size_t row = 0; row < y.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) y[row] += matrix[row * x.size() + i] * x[i];
  }
  return y;
}

inline Doubles Row(const std::vector<float>& rows, size_t row, size_t width) {
  return {rows.begin() + row * width, rows.begin() + (row + 1) * width};
}

inline Doubles Normed(const Doubles& x, const std::vector<float>& weight,
                      const std::vector<float>& bias) {
  double mean = 0;
  for (const double value : x) mean += value / x.size();
  double variance = 0;
  for (const double value : x) variance += (value - mean) * (value - mean) / x.size();
  Doubles y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) * weight[i] + bias[i];
  return y;
}

// fp32 results against doubles: 2^-24 per operation over sums of up to about a thousand terms of
// the size of the largest result.
inline void ExpectNear(const float* got, const Doubles& want, const char* what) {
  double largest = 1.0;
  for (const double value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 3e-5 * largest) << what << " at " << i;
}

}  // namespace tandem
