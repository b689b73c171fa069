#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"
#include "tests/kernels/e4m3_values.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

TEST(E4m3Test, EveryCodeReturns) {
  for (int code = 0; code < 256; ++code) {
    if ((code & 0x7f) == 0x7f) continue;  // NaN
    EXPECT_EQ(DecodeE4m3(static_cast<uint8_t>(code)), E4m3Value(code)) << code;
    EXPECT_EQ(EncodeE4m3(static_cast<float>(E4m3Value(code))), code);
  }
}

// Values on, between and beside the middles of neighbours.
TEST(E4m3Test, RoundsToTheNearestEven) {
  for (int code = 0; code < 0x7e; ++code) {
    for (const double share : {0.1, 0.25, 0.4999, 0.5, 0.5001, 0.75, 0.99}) {
      for (const double sign : {1.0, -1.0}) {
        const float value = static_cast<float>(
            sign * (E4m3Value(code) + share * (E4m3Value(code + 1) - E4m3Value(code))));
        EXPECT_EQ(EncodeE4m3(value), NearestE4m3(value)) << value;
      }
    }
  }
}

TEST(E4m3Test, LargeWeightsAreClamped) {
  EXPECT_EQ(QuantizeFp8(449.0f, 1.0f), 0x7e);
  EXPECT_EQ(QuantizeFp8(-1e30f, 1.0f), 0xfe);
}

struct Rounded {
  std::vector<float> weights;  // [N, K], what a sum runs over
  std::vector<float> scales;   // [N], of a finished sum
};

// The rounding of each format from its definition, in double where fp32 is not the definition.
Rounded Round(WeightFormat format, const std::vector<float>& weights, int rows, int cols) {
  Rounded rounded = {.weights = weights, .scales = std::vector<float>(rows, 1.0f)};
  const int group = format == WeightFormat::kInt6 ? 64 : cols;
  for (int n = 0; n < rows; ++n) {
    for (int first = 0; first < cols; first += group) {
      const int end = std::min(first + group, cols);
      float* w = rounded.weights.data() + static_cast<size_t>(n) * cols;
      float largest = 0.0f;
      for (int k = first; k < end; ++k) largest = std::max(largest, std::fabs(w[k]));
      if (format == WeightFormat::kBf16 || largest == 0.0f) continue;
      const float limit = format == WeightFormat::kFp8    ? 448.0f
                          : format == WeightFormat::kInt8 ? 127.0f
                                                          : 31.0f;
      float scale = largest / limit;
      if (format == WeightFormat::kInt6) {
        const double unit = std::ldexp(1.0, std::ilogb(scale) - 7);
        scale = static_cast<float>(std::nearbyint(scale / unit) * unit);
      } else {
        rounded.scales[static_cast<size_t>(n)] = scale;
      }
      for (int k = first; k < end; ++k) {
        const float quotient = std::min(std::max(w[k] / scale, -limit), limit);
        w[k] = format == WeightFormat::kFp8
                   ? static_cast<float>(E4m3Value(NearestE4m3(quotient)))
                   : std::nearbyint(quotient) * (format == WeightFormat::kInt6 ? scale : 1.0f);
      }
    }
  }
  return rounded;
}

class LinearFormats : public testing::TestWithParam<std::tuple<WeightFormat, int, int>> {
 protected:
  LinearFormats() : backend_(MakeCpuBackend(2)), random_(5) {
    std::tie(format_, outputs_, cols_) = GetParam();
    bits_.resize(static_cast<size_t>(outputs_) * cols_);
    for (size_t i = 0; i < bits_.size(); ++i) {
      // Sizes differ by row and column; the second row is all zero.
      const float size = std::ldexp(1.0f, static_cast<int>(i % 7) - 9);
      const float value = random_.Vector(1, -size, size)[0];
      const bool zero = outputs_ > 1 && i / static_cast<size_t>(cols_) == 1;
      bits_[i] = zero ? 0 : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      values_.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits_[i]) << 16));
    }
    matrix_ = {.format = format_, .rows = outputs_, .cols = cols_};
    void* memory = backend_->Allocate(backend_->PackedBytes(matrix_));
    EXPECT_TRUE(backend_->Pack(memory, matrix_, bits_.data()));
    matrix_.data = memory;
  }

  std::unique_ptr<Backend> backend_;
  Random random_;
  WeightFormat format_;
  int outputs_ = 0, cols_ = 0;
  std::vector<uint16_t> bits_;
  std::vector<float> values_;
  Matrix matrix_;
};

TEST_P(LinearFormats, RoundsAsDefined) {
  const Rounded expected = Round(format_, values_, outputs_, cols_);
  std::vector<float> row(static_cast<size_t>(cols_));
  for (int n = 0; n < outputs_; ++n) {
    EXPECT_EQ(LinearUnpackRow(matrix_, n, row.data()), expected.scales[static_cast<size_t>(n)]);
    for (int k = 0; k < cols_; ++k)
      ASSERT_EQ(row[static_cast<size_t>(k)], expected.weights[static_cast<size_t>(n) * cols_ + k])
          << n << ", " << k;
  }
}

TEST_P(LinearFormats, SumsEqualTheLoopBitForBit) {
  const Rounded rounded = Round(format_, values_, outputs_, cols_);
  constexpr int kMostRows = 27;
  std::vector<float> x = random_.Vector(static_cast<size_t>(kMostRows) * cols_, -2.0f, 2.0f);
  for (float& value : x) value = random_.Int(0, 2) == 0 ? 0.0f : value;
  std::vector<float> expected;
  for (int m = 0; m < kMostRows; ++m) {
    for (int n = 0; n < outputs_; ++n) {
      float sum = 0.0f;
      for (int k = 0; k < cols_; ++k) {
        sum = std::fma(x[static_cast<size_t>(m) * cols_ + k],
                       rounded.weights[static_cast<size_t>(n) * cols_ + k], sum);
      }
      expected.push_back(sum * rounded.scales[static_cast<size_t>(n)] + 0.0f);
    }
  }
  for (const bool sparse : {false, true}) {
    Matrix matrix = matrix_;
    matrix.sparse_inputs = sparse;
    for (const int rows : {1, 2, 3, 4, 11, 12, 13, kMostRows}) {
      std::vector<float> y = Poisoned(static_cast<size_t>(rows) * outputs_);
      backend_->Linear({.rows = rows,
                        .weight = matrix,
                        .x = ViewOf(x),
                        .x_stride = static_cast<size_t>(cols_),
                        .y = ViewOf(y),
                        .y_stride = static_cast<size_t>(outputs_)});
      EXPECT_TRUE(SameBits(y, RowsOf(expected, 0, rows, outputs_))) << rows << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearFormats,
                         testing::Combine(testing::Values(WeightFormat::kBf16, WeightFormat::kFp8,
                                                          WeightFormat::kInt8, WeightFormat::kInt6),
                                          testing::Values(1, 16, 33, 150),
                                          testing::Values(1, 7, 64, 65, 200)));

}  // namespace
}  // namespace tandem
