#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "tests/gpu/linear_rig.h"

namespace tandem {
namespace {

using Size = std::pair<int, int>;  // N, K

class LinearCudaTest : public testing::TestWithParam<LinearKind> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }
  void ExpectNear(const LinearWeight& weight, const std::vector<float>& x,
                  const std::vector<float>& y, int rows) {
    const int outputs = weight.matrix.rows, cols = weight.matrix.cols;
    int wrong = 0;
    for (int m = 0; m < rows; ++m) {
      for (int n = 0; n < outputs; ++n) {
        const LinearWeight::Sum sum = weight.Times(n, x.data() + static_cast<size_t>(m) * cols);
        const float got = y[static_cast<size_t>(m) * outputs + n];
        if (std::fabs(got - sum.value) <= weight.Tolerance() * sum.magnitude) continue;
        if (++wrong < 4) {
          ADD_FAILURE() << "row " << m << " output " << n << ": " << got << ", not " << sum.value
                        << ", terms " << sum.magnitude;
        }
      }
    }
    EXPECT_EQ(wrong, 0) << rows << " rows of " << outputs << " x " << cols;
  }

  std::unique_ptr<Backend> cuda_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, LinearCudaTest, testing::ValuesIn(LinearKinds()),
                         [](const auto& kind) { return KindName(kind.param); });

// With one input of 1 a sum is the weight itself, exactly; when that is rounded, 448 times it and
// then the scale of 1 / 448.
TEST_P(LinearCudaTest, WeightsAreThoseOfTheCpu) {
  Random random(1);
  for (const auto& [outputs, cols] : {Size{1, 1}, Size{37, 51}, Size{130, 200}, Size{256, 64}}) {
    const LinearWeight weight(*cuda_, random, GetParam(), outputs, cols);
    std::vector<float> x(static_cast<size_t>(cols) * cols, 0.0f), expected;
    for (int k = 0; k < cols; ++k) {
      x[static_cast<size_t>(k) * cols + k] = 1.0f;
      for (int n = 0; n < outputs; ++n) {
        const float sum = GetParam().rounded_inputs ? 448.0f * weight.At(n, k) * (1.0f / 448.0f)
                                                    : weight.At(n, k);
        expected.push_back(sum * weight.scales[static_cast<size_t>(n)] + 0.0f);
      }
    }
    OnDevice device(*cuda_);
    const std::vector<float> y = RunOnDevice(*cuda_, weight, device.In(x), cols, cols);
    EXPECT_TRUE(SameBits(y, expected)) << outputs << " x " << cols;
  }
}

TEST_P(LinearCudaTest, SumsAreRight) {
  Random random(2);
  for (const auto& [outputs, cols] :
       {Size{1, 1}, Size{16, 16}, Size{37, 51}, Size{200, 7}, Size{256, 256}, Size{129, 1024}}) {
    const LinearWeight weight(*cuda_, random, GetParam(), outputs, cols);
    const std::vector<float> x = LinearInputs(random, GetParam(), 65, cols);
    OnDevice device(*cuda_);
    const View<const float> in = device.In(x);
    for (const int rows : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 32, 33, 63, 64, 65})
      ExpectNear(weight, x, RunOnDevice(*cuda_, weight, in, static_cast<size_t>(cols), rows), rows);
  }
}

// The widths of real models, a few rows of a pass of 512 checked.
TEST_P(LinearCudaTest, SumsOfRealSizesAreRight) {
  Random random(3);
  for (const auto& [outputs, cols] : {Size{4096, 4096}, Size{2560, 10240}}) {
    const LinearWeight weight(*cuda_, random, GetParam(), outputs, cols);
    const std::vector<float> x = LinearInputs(random, GetParam(), 3, cols);
    OnDevice device(*cuda_);
    const View<const float> in = device.In(x);
    ExpectNear(weight, x, RunOnDevice(*cuda_, weight, in, static_cast<size_t>(cols), 3), 3);
  }
}

// A row's bits, whatever stands before and behind it: rows first ... first + rows of a pool of 512
// against each row alone.
TEST_P(LinearCudaTest, RowsDependOnThemselvesOnly) {
  Random random(4);
  for (const auto& [outputs, cols] :
       {Size{48, 51}, Size{96, 700}, Size{256, 1024}, Size{2048, 256}, Size{4096, 4096}}) {
    constexpr int kPool = 512;
    const size_t stride = static_cast<size_t>(cols);
    const LinearWeight weight(*cuda_, random, GetParam(), outputs, cols);
    OnDevice device(*cuda_);
    const View<const float> x = device.In(LinearInputs(random, GetParam(), kPool, cols));
    std::vector<float> alone;
    for (int m = 0; m < kPool; ++m) {
      const View<const float> row = x.Sub(m * stride, stride);
      const std::vector<float> y = RunOnDevice(*cuda_, weight, row, stride, 1);
      alone.insert(alone.end(), y.begin(), y.end());
    }
    const std::vector<std::tuple<int, int>> passes = {
        {0, 2},    {5, 3},   {7, 4},   {11, 5},    {1, 7},   {0, 8},    {3, 9},
        {100, 12}, {2, 16},  {9, 17},  {40, 32},   {6, 33},  {64, 63},  {130, 64},
        {21, 65},  {0, 128}, {7, 129}, {200, 200}, {0, 511}, {0, kPool}};
    for (const auto& [first, rows] : passes) {
      const View<const float> from = x.Sub(first * stride, rows * stride);
      EXPECT_TRUE(SameBits(RunOnDevice(*cuda_, weight, from, stride, rows),
                           RowsOf(alone, first, rows, outputs)))
          << outputs << " x " << cols << ", " << rows << " rows from " << first;
    }
  }
}

// Rows that do not begin at a multiple of 16 bytes.
TEST_P(LinearCudaTest, AlignmentChangesNoBit) {
  Random random(5);
  constexpr int kOutputs = 70, kCols = 132, kRows = 20;
  const LinearWeight weight(*cuda_, random, GetParam(), kOutputs, kCols);
  const std::vector<float> x = LinearInputs(random, GetParam(), kRows, kCols);
  OnDevice device(*cuda_);
  const std::vector<float> expected = RunOnDevice(*cuda_, weight, device.In(x), kCols, kRows);
  for (const size_t offset : {0u, 1u, 3u}) {
    const size_t stride = kCols + 1 - offset / 3;
    // What lies between the rows must not be used.
    std::vector<float> spread = Poisoned(offset + kRows * stride);
    for (size_t m = 0; m < kRows; ++m)
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(m * kCols), kCols,
                  spread.begin() + static_cast<std::ptrdiff_t>(offset + m * stride));
    const View<const float> in = device.In(spread);
    EXPECT_TRUE(SameBits(
        RunOnDevice(*cuda_, weight, in.Sub(offset, in.size - offset), stride, kRows), expected))
        << offset;
  }
}

// A broken input breaks its row and no other.
TEST_P(LinearCudaTest, BrokenInputsBreakTheirRow) {
  Random random(6);
  constexpr int kOutputs = 150, kCols = 200;
  const LinearWeight weight(*cuda_, random, GetParam(), kOutputs, kCols);
  OnDevice device(*cuda_);
  for (const int rows : {1, 4, 9, 70}) {
    const std::vector<float> x = LinearInputs(random, GetParam(), rows, kCols);
    const std::vector<float> before = RunOnDevice(*cuda_, weight, device.In(x), kCols, rows);
    const int broken = rows / 2;
    for (const float input :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      // Sparse sums are of fp32, in which infinity times a weight is infinite.
      if (std::isinf(input) && GetParam().sparse_inputs && !GetParam().rounded_inputs) continue;
      std::vector<float> with = x;
      with[static_cast<size_t>(broken) * kCols + 77] = input;
      const std::vector<float> y = RunOnDevice(*cuda_, weight, device.In(with), kCols, rows);
      for (int m = 0; m < rows; ++m) {
        const std::vector<float> row = RowsOf(y, m, 1, kOutputs);
        if (m == broken) {
          EXPECT_TRUE(std::all_of(row.begin(), row.end(), [](float v) { return std::isnan(v); }));
        } else {
          EXPECT_TRUE(SameBits(row, RowsOf(before, m, 1, kOutputs))) << m;
        }
      }
    }
  }
}

// Products below the smallest float, and nothing at all: a sum is never -0.
TEST_P(LinearCudaTest, NoNegativeZero) {
  Random random(7);
  const LinearWeight weight(*cuda_, random, GetParam(), 64, 64);
  OnDevice device(*cuda_);
  std::vector<float> x(2 * 64, 0.0f);
  for (size_t k = 0; k < 64; ++k) x[k] = k % 2 == 0 ? 1e-45f : -1e-45f;
  for (const float value : RunOnDevice(*cuda_, weight, device.In(x), 64, 2))
    EXPECT_FALSE(value == 0.0f && std::signbit(value));
}

double Finish(Epilogue epilogue, double sum, double y) {
  switch (epilogue) {
    case Epilogue::kStore:
      return sum;
    case Epilogue::kAdd:
      return y + sum;
    case Epilogue::kReluSquare:
      return sum > 0 ? sum * sum : 0;
    case Epilogue::kTanh:
      return std::tanh(sum);
    case Epilogue::kSigmoid:
      return 1 / (1 + std::exp(-sum));
  }
  return sum;
}

TEST_P(LinearCudaTest, EpiloguesAndStrides) {
  Random random(8);
  constexpr int kOutputs = 45, kCols = 24;
  constexpr size_t kYStride = 50;
  const LinearWeight weight(*cuda_, random, GetParam(), kOutputs, kCols);
  OnDevice device(*cuda_);
  for (const int rows : {1, 3, 14, 40, 130}) {
    cuda_->ReserveLinear({.rows = rows, .inputs = kCols});
    const size_t all = static_cast<size_t>(rows) * kYStride;
    const std::vector<float> x = random.Vector(static_cast<size_t>(rows) * kCols, -3.0f, 3.0f);
    const std::vector<float> before = random.Vector(all, -3.0f, 3.0f);
    const View<const float> in = device.In(x);
    for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kReluSquare,
                                    Epilogue::kTanh, Epilogue::kSigmoid}) {
      const View<float> y = device.In(before);
      cuda_->Linear({.rows = rows,
                     .weight = weight.matrix,
                     .x = in,
                     .x_stride = kCols,
                     .y = y,
                     .y_stride = kYStride,
                     .epilogue = epilogue});
      const std::vector<float> got = device.Read(y);
      for (size_t i = 0; i < all; ++i) {
        const size_t m = i / kYStride, n = i % kYStride;
        if (n >= kOutputs) {
          ASSERT_EQ(got[i], before[i]) << "outside of the row";
          continue;
        }
        const double sum = weight.Times(static_cast<int>(n), x.data() + m * kCols).value;
        const double expected = Finish(epilogue, sum, before[i]);
        // Sums of terms of at most 72 in all, their error doubled with the largest sum by the
        // square.
        ASSERT_NEAR(got[i], expected, weight.Tolerance() * 72 * (2 * std::fabs(sum) + 1)) << i;
      }
    }
  }
}

}  // namespace
}  // namespace tandem
