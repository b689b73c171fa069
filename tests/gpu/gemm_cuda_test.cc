// Linear ops of many rows through cuBLASLt.

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/gpu/linear_rig.h"

namespace tandem {
namespace {

using Size = std::pair<int, int>;  // N, K

class GemmCudaTest : public testing::TestWithParam<LinearKind> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
    CudaStart start = MakeCudaBackend({.batch_invariant = false});
    ASSERT_NE(start.backend, nullptr) << start.refused;
    gemm_ = std::move(start.backend);
  }
  // What a sum may be off, relative to the magnitudes of its terms: one bf16 rounding of every
  // activation, another of an Int6 weight, and an fp32 sum; with E4M3, which is exact, the tensor
  // cores' partial sums, which keep 13 bits of up to 128 terms, with one more bit for their number.
  static double Tolerance(const LinearWeight& weight) {
    if (weight.matrix.rounded_inputs) return std::ldexp(1.0, -10);
    const int roundings = weight.matrix.format == WeightFormat::kInt6 ? 2 : 1;
    return roundings * std::ldexp(1.0, -8) + weight.Tolerance();
  }

  std::unique_ptr<Backend> cuda_, gemm_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, GemmCudaTest, testing::ValuesIn(LinearKinds()),
                         [](const auto& kind) { return KindName(kind.param); });

TEST_P(GemmCudaTest, SumsAreRight) {
  Random random(2);
  for (const auto& [outputs, cols] :
       {Size{1, 1}, Size{16, 16}, Size{37, 51}, Size{200, 7}, Size{256, 256}, Size{300, 4160}}) {
    const LinearWeight weight(*gemm_, random, GetParam(), outputs, cols);
    for (const int rows : {65, 130, 301}) {
      const std::vector<float> x = LinearInputs(random, GetParam(), rows, cols);
      OnDevice device(*gemm_);
      const std::vector<float> y =
          RunOnDevice(*gemm_, weight, device.In(x), static_cast<size_t>(cols), rows);
      int wrong = 0;
      for (int m = 0; m < rows; m += 7) {
        for (int n = 0; n < outputs; ++n) {
          const LinearWeight::Sum sum = weight.Times(n, x.data() + static_cast<size_t>(m) * cols);
          const float got = y[static_cast<size_t>(m) * outputs + n];
          if (std::fabs(got - sum.value) <= Tolerance(weight) * sum.magnitude) continue;
          if (++wrong < 4) {
            ADD_FAILURE() << "row " << m << " output " << n << ": " << got << ", not " << sum.value
                          << ", terms " << sum.magnitude;
          }
        }
      }
      EXPECT_EQ(wrong, 0) << rows << " rows of " << outputs << " x " << cols;
    }
  }
}

// A matrix of more outputs than fit at a time.
TEST_P(GemmCudaTest, PartsJoin) {
  constexpr int kOutputs = 16384 + 300, kCols = 64, kRows = 70;
  Random random(3);
  const LinearWeight weight(*gemm_, random, GetParam(), kOutputs, kCols);
  const std::vector<float> x = LinearInputs(random, GetParam(), kRows, kCols);
  OnDevice device(*gemm_);
  const std::vector<float> y = RunOnDevice(*gemm_, weight, device.In(x), kCols, kRows);
  for (int n = 0; n < kOutputs; n += 53) {
    const LinearWeight::Sum sum = weight.Times(n, x.data() + 69 * kCols);
    ASSERT_NEAR(y[size_t{69} * kOutputs + static_cast<size_t>(n)], sum.value,
                Tolerance(weight) * sum.magnitude)
        << n;
  }
}

// Few rows run the kernels that are always used; many do not, which shows in the last bits.
TEST_P(GemmCudaTest, OnlyManyRowsGoThere) {
  constexpr int kOutputs = 256, kCols = 1024;
  Random one(4), other(4);
  const LinearWeight always(*cuda_, one, GetParam(), kOutputs, kCols);
  const LinearWeight weight(*gemm_, other, GetParam(), kOutputs, kCols);
  const std::vector<float> x = LinearInputs(one, GetParam(), 65, kCols);
  OnDevice device(*cuda_), gemm_device(*gemm_);
  for (const int rows : {1, 4, 33, 64, 65}) {
    const std::vector<float> expected = RunOnDevice(*cuda_, always, device.In(x), kCols, rows);
    const std::vector<float> y = RunOnDevice(*gemm_, weight, gemm_device.In(x), kCols, rows);
    EXPECT_EQ(SameBits(y, expected), rows <= 64) << rows;
  }
}

TEST_P(GemmCudaTest, EpiloguesAndStrides) {
  constexpr int kOutputs = 45, kCols = 24, kRows = 70;
  constexpr size_t kYStride = 51;
  Random random(8);
  const LinearWeight weight(*gemm_, random, GetParam(), kOutputs, kCols);
  OnDevice device(*gemm_);
  const std::vector<float> x = random.Vector(size_t{kRows} * kCols, -3.0f, 3.0f);
  const std::vector<float> before = random.Vector(kRows * kYStride, -3.0f, 3.0f);
  const View<const float> in = device.In(x);
  gemm_->ReserveLinear({.rows = kRows, .inputs = kCols});
  const View<float> sums = device.Out<float>(size_t{kRows} * kOutputs);
  gemm_->Linear(WholeRows(kRows, weight.matrix, in, sums));
  const std::vector<float> stored = device.Read(sums);
  for (const Epilogue epilogue :
       {Epilogue::kAdd, Epilogue::kReluSquare, Epilogue::kTanh, Epilogue::kSigmoid}) {
    const View<float> y = device.In(before);
    gemm_->Linear({.rows = kRows,
                   .weight = weight.matrix,
                   .x = in,
                   .x_stride = kCols,
                   .y = y,
                   .y_stride = kYStride,
                   .epilogue = epilogue});
    const std::vector<float> got = device.Read(y);
    for (size_t i = 0; i < got.size(); ++i) {
      const size_t m = i / kYStride, n = i % kYStride;
      if (n >= kOutputs) {
        ASSERT_EQ(got[i], before[i]) << "outside of the row";
        continue;
      }
      // The same sum, so that only the roundings of the epilogue itself are left.
      const double sum = stored[m * kOutputs + n];
      const double expected = epilogue == Epilogue::kAdd          ? before[i] + sum
                              : epilogue == Epilogue::kReluSquare ? (sum > 0 ? sum * sum : 0)
                              : epilogue == Epilogue::kTanh       ? std::tanh(sum)
                                                                  : 1 / (1 + std::exp(-sum));
      ASSERT_NEAR(got[i], expected, 1e-6 * std::max(1.0, std::fabs(expected))) << i;
    }
  }
}

}  // namespace
}  // namespace tandem
