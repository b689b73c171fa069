#include "kernels/linear/linear.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "hwy/targets.h"
#include "kernels/linear/linear_cpu.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

// Runs with one instruction set after the other, the best last.
template <class Body>
void ForEachTarget(const Body& body) {
  for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
    const int64_t target = targets & -targets;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// ((0 + x[0] w[0]) + x[1] w[1]) + ..., one fused multiply-add each; a sum is never -0.
float Sum(const TestMatrix& weight, int output, const float* x, int cols) {
  float sum = 0.0f;
  for (int k = 0; k < cols; ++k) sum = std::fma(x[k], weight.At(output, k), sum);
  return sum + 0.0f;
}

std::vector<float> Expected(const TestMatrix& weight, const std::vector<float>& x, int rows,
                            int cols) {
  std::vector<float> y;
  for (int m = 0; m < rows; ++m) {
    for (int n = 0; n < weight.rows(); ++n) {
      y.push_back(Sum(weight, n, x.data() + static_cast<size_t>(m) * cols, cols));
    }
  }
  return y;
}

std::vector<float> RunLinear(Backend& backend, const TestMatrix& weight,
                             const std::vector<float>& x, int rows, int cols, bool sparse = false) {
  std::vector<float> y = Poisoned(static_cast<size_t>(rows) * weight.rows());
  Matrix matrix = weight.packed();
  matrix.sparse_inputs = sparse;
  backend.Linear({.rows = rows,
                  .weight = matrix,
                  .x = ViewOf(x),
                  .x_stride = static_cast<size_t>(cols),
                  .y = ViewOf(y),
                  .y_stride = static_cast<size_t>(weight.rows()),
                  .epilogue = Epilogue::kStore});
  return y;
}

std::vector<float> WithZeros(Random& random, std::vector<float> x) {
  for (float& value : x) {
    if (random.Int(0, 9) < 8) value = random.Int(0, 1) == 0 ? 0.0f : -0.0f;
  }
  return x;
}

class LinearSizes : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(LinearSizes, EqualsTheLoopBitForBit) {
  const auto [outputs, cols] = GetParam();
  Random random(7);
  const std::unique_ptr<Backend> one = MakeCpuBackend(1), three = MakeCpuBackend(3);
  const TestMatrix weight(*one, random, outputs, cols);
  constexpr int kMostRows = 70;
  const std::vector<float> x = random.Vector(static_cast<size_t>(kMostRows) * cols, -2.0f, 2.0f);
  const std::vector<float> zeros = WithZeros(random, x);
  const std::vector<float> expected = Expected(weight, x, kMostRows, cols);
  const std::vector<float> expected_zeros = Expected(weight, zeros, kMostRows, cols);
  for (int rows = 0; rows <= kMostRows; ++rows) {
    const std::vector<float> first = RowsOf(expected, 0, rows, outputs);
    EXPECT_TRUE(SameBits(RunLinear(*one, weight, x, rows, cols), first)) << rows << " rows";
    EXPECT_TRUE(SameBits(RunLinear(*three, weight, x, rows, cols), first))
        << rows << " rows, 3 threads";
    EXPECT_TRUE(SameBits(RunLinear(*three, weight, zeros, rows, cols, true),
                         RowsOf(expected_zeros, 0, rows, outputs)))
        << rows << " sparse rows";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LinearSizes,
                         testing::Combine(testing::Values(1, 15, 16, 31, 32, 33, 64, 200),
                                          testing::Values(1, 2, 7, 32, 65, 256)));

TEST(LinearTest, EveryInstructionSetGivesTheSameBits) {
  Random random(11);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  constexpr int kOutputs = 70, kCols = 51, kRows = 17;
  const TestMatrix weight(*backend, random, kOutputs, kCols);
  const std::vector<float> x = random.Vector(kRows * kCols, -2.0f, 2.0f);
  const std::vector<float> zeros = WithZeros(random, x);
  ForEachTarget([&] {
    for (const int rows : {1, 2, 3, 5, 12, 13, 17}) {
      EXPECT_TRUE(
          SameBits(RunLinear(*backend, weight, x, rows, kCols), Expected(weight, x, rows, kCols)));
      EXPECT_TRUE(SameBits(RunLinear(*backend, weight, zeros, rows, kCols, true),
                           Expected(weight, zeros, rows, kCols)));
    }
  });
}

TEST(LinearTest, TheReferenceIsTheSameLoop) {
  Random random(12);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const TestMatrix weight(*backend, random, 37, 19);
  const std::vector<float> x = random.Vector(3 * 19, -2.0f, 2.0f);
  std::vector<float> y = Poisoned(3 * 37);
  LinearReference({.rows = 3,
                   .weight = weight.packed(),
                   .x = ViewOf(x),
                   .x_stride = 19,
                   .y = ViewOf(y),
                   .y_stride = 37});
  EXPECT_TRUE(SameBits(y, Expected(weight, x, 3, 19)));
}

// Products below the smallest float round to -0, which skipping zeros must not turn into another
// result.
TEST(LinearTest, UnderflowToNegativeZeroIsNotSeen) {
  Random random(13);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const TestMatrix weight(*backend, random, 32, 4);
  for (const bool sparse : {false, true}) {
    const std::vector<float> y =
        RunLinear(*backend, weight, {1e-45f, 0.0f, -1e-45f, 0.0f}, 1, 4, sparse);
    for (const float value : y) EXPECT_FALSE(value == 0.0f && std::signbit(value));
  }
}

// A broken input breaks its row, also where zeros are skipped; 40 inputs reach the vector part and
// the rest of the list.
TEST(LinearTest, NanIsNotSkipped) {
  Random random(17);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const TestMatrix weight(*backend, random, 32, 40);
  for (const size_t broken : {0u, 21u, 39u}) {
    std::vector<float> x(40, 0.0f);
    x[broken] = std::nanf("");
    for (const bool sparse : {false, true}) {
      for (const float value : RunLinear(*backend, weight, x, 1, 40, sparse))
        EXPECT_TRUE(std::isnan(value)) << broken;
    }
  }
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

TEST(LinearTest, EpiloguesAndStrides) {
  Random random(14);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  constexpr int kOutputs = 45, kCols = 24, kRows = 14;
  constexpr size_t kXStride = 30, kYStride = 50;
  const TestMatrix weight(*backend, random, kOutputs, kCols);
  const std::vector<float> x = random.Vector(kRows * kXStride, -3.0f, 3.0f);
  const std::vector<float> before = random.Vector(kRows * kYStride, -3.0f, 3.0f);
  for (const Epilogue epilogue : {Epilogue::kStore, Epilogue::kAdd, Epilogue::kReluSquare,
                                  Epilogue::kTanh, Epilogue::kSigmoid}) {
    std::vector<float> y = before;
    backend->Linear({.rows = kRows,
                     .weight = weight.packed(),
                     .x = ViewOf(x),
                     .x_stride = kXStride,
                     .y = ViewOf(y),
                     .y_stride = kYStride,
                     .epilogue = epilogue});
    for (size_t m = 0; m < kRows; ++m) {
      for (size_t n = 0; n < kYStride; ++n) {
        const size_t at = m * kYStride + n;
        const double expected =
            n < kOutputs
                ? Finish(epilogue, Sum(weight, static_cast<int>(n), x.data() + m * kXStride, kCols),
                         before[at])
                : before[at];
        // One or two roundings, and the exponential's 2^-22, relative to values of up to 900.
        EXPECT_NEAR(y[at], expected, 1e-6 * std::max(1.0, std::fabs(expected)));
      }
    }
  }
}

TEST(LinearTest, SigmoidAndTanhSaturate) {
  Random random(15);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const TestMatrix weight(*backend, random, 32, 1);
  for (const float input : {-1e4f, -200.0f, 200.0f, 1e4f}) {
    for (const Epilogue epilogue : {Epilogue::kTanh, Epilogue::kSigmoid}) {
      std::vector<float> y = Poisoned(32);
      const std::vector<float> x = {input};
      backend->Linear({.rows = 1,
                       .weight = weight.packed(),
                       .x = ViewOf(x),
                       .x_stride = 1,
                       .y = ViewOf(y),
                       .y_stride = 32,
                       .epilogue = epilogue});
      for (int n = 0; n < 32; ++n) {
        EXPECT_NEAR(y[static_cast<size_t>(n)], Finish(epilogue, input * weight.At(n, 0), 0.0),
                    1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
