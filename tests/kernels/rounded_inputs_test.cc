// Fp8 matrices whose inputs are rounded to E4M3 too.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"
#include "tests/kernels/e4m3_values.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

TEST(RoundToE4m3Test, IsTheNearestValue) {
  for (int code = 0; code < 0x7e; ++code) {
    for (const double share : {0.0, 0.25, 0.4999, 0.5, 0.5001, 0.75}) {
      for (const double sign : {1.0, -1.0}) {
        const float value = static_cast<float>(
            sign * (E4m3Value(code) + share * (E4m3Value(code + 1) - E4m3Value(code))));
        const float rounded = RoundToE4m3(value);
        EXPECT_EQ(rounded, E4m3Value(NearestE4m3(value))) << value;
        EXPECT_EQ(std::signbit(rounded), std::signbit(value)) << value;
      }
    }
  }
}

TEST(RoundToE4m3Test, EveryNanStays) {
  for (const uint32_t bits : {0x7fc00000u, 0x7fffffffu, 0xffffffffu, 0x7f800001u})
    EXPECT_TRUE(std::isnan(RoundToE4m3(std::bit_cast<float>(bits)))) << bits;
}

// A row by the definition.
struct Row {
  std::vector<double> values;
  double scale = 1.0;
};
Row RowOf(const float* x, int cols) {
  Row row;
  float largest = 0.0f;
  for (int k = 0; k < cols; ++k) largest = std::max(largest, std::fabs(x[k]));
  const float scale = largest / 448.0f == 0.0f ? 1.0f : largest / 448.0f;
  row.scale = scale;
  for (int k = 0; k < cols; ++k) row.values.push_back(E4m3Value(NearestE4m3(x[k] / scale)));
  return row;
}

class RoundedInputsTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  RoundedInputsTest() : backend_(MakeCpuBackend(2)), random_(3) {
    std::tie(outputs_, cols_) = GetParam();
    std::vector<uint16_t> bits;
    for (const float value : random_.Vector(static_cast<size_t>(outputs_) * cols_, -1.0f, 1.0f))
      bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
    matrix_ = {
        .format = WeightFormat::kFp8, .rows = outputs_, .cols = cols_, .rounded_inputs = true};
    void* const memory = backend_->Allocate(backend_->PackedBytes(matrix_));
    EXPECT_TRUE(backend_->Pack(memory, matrix_, bits.data()));
    matrix_.data = memory;
  }

  // Rows whose sizes differ, one of them zero; about half of the inputs are zero.
  std::vector<float> Inputs(int rows) {
    std::vector<float> x = random_.Vector(static_cast<size_t>(rows) * cols_, -1.0f, 1.0f);
    for (size_t i = 0; i < x.size(); ++i) {
      const int row = static_cast<int>(i / static_cast<size_t>(cols_));
      x[i] = row == 2 || random_.Int(0, 1) == 0 ? 0.0f : std::ldexp(x[i], row % 21 - 10);
    }
    return x;
  }
  std::vector<float> Run(const Matrix& matrix, const std::vector<float>& x, int rows) {
    std::vector<float> y = Poisoned(static_cast<size_t>(rows) * outputs_);
    backend_->Linear(WholeRows(rows, matrix, ViewOf(x), ViewOf(y)));
    return y;
  }

  std::unique_ptr<Backend> backend_;
  Random random_;
  int outputs_ = 0, cols_ = 0;
  Matrix matrix_;
};

// Every product is exact in double, so that only the order of the fp32 sum, its K roundings of at
// most half a unit, and the two of the scales are left: (K + 2) 2^-24 of the terms' magnitudes.
TEST_P(RoundedInputsTest, SumsAreThoseOfTheRoundedRows) {
  constexpr int kRows = 27;
  const std::vector<float> x = Inputs(kRows);
  const std::vector<float> y = Run(matrix_, x, kRows);
  std::vector<float> weight(static_cast<size_t>(cols_));
  for (int n = 0; n < outputs_; ++n) {
    const double scale = LinearUnpackRow(matrix_, n, weight.data());
    for (int m = 0; m < kRows; ++m) {
      const Row row = RowOf(x.data() + static_cast<size_t>(m) * cols_, cols_);
      double sum = 0.0, magnitude = 0.0;
      for (int k = 0; k < cols_; ++k) {
        const double term =
            row.values[static_cast<size_t>(k)] * weight[static_cast<size_t>(k)] * row.scale * scale;
        sum += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(y[static_cast<size_t>(m) * outputs_ + n], sum,
                  (cols_ + 2) * std::ldexp(magnitude, -24))
          << "row " << m << " output " << n;
    }
  }
}

TEST_P(RoundedInputsTest, EveryPathGivesTheBitsOfTheReference) {
  constexpr int kMostRows = 27;
  const std::vector<float> x = Inputs(kMostRows);
  std::vector<float> expected = Poisoned(static_cast<size_t>(kMostRows) * outputs_);
  LinearReference(WholeRows(kMostRows, matrix_, ViewOf(x), ViewOf(expected)));
  for (const bool sparse : {false, true}) {
    Matrix matrix = matrix_;
    matrix.sparse_inputs = sparse;
    for (const int rows : {1, 2, 4, 11, 13, kMostRows}) {
      EXPECT_TRUE(SameBits(Run(matrix, x, rows), RowsOf(expected, 0, rows, outputs_)))
          << rows << " rows";
    }
  }
}

TEST_P(RoundedInputsTest, BrokenInputsBreakTheirRow) {
  constexpr int kRows = 5;
  std::vector<float> x = Inputs(kRows);
  const std::vector<float> before = Run(matrix_, x, kRows);
  for (const float broken :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    x[3 * static_cast<size_t>(cols_) + static_cast<size_t>(cols_) / 2] = broken;
    for (const bool sparse : {false, true}) {
      Matrix matrix = matrix_;
      matrix.sparse_inputs = sparse;
      const std::vector<float> y = Run(matrix, x, kRows);
      for (int m = 0; m < kRows; ++m) {
        const std::vector<float> row = RowsOf(y, m, 1, outputs_);
        if (m == 3) {
          EXPECT_THAT(row, testing::Each(testing::IsNan()));
        } else {
          EXPECT_TRUE(SameBits(row, RowsOf(before, m, 1, outputs_))) << m;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RoundedInputsTest,
                         testing::Combine(testing::Values(1, 33, 150),
                                          testing::Values(1, 7, 65, 200)));

}  // namespace
}  // namespace tandem
