#include <cstring>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/stored_codes.h"

namespace tandem {
namespace {

class PackCodes : public testing::TestWithParam<std::tuple<WeightFormat, int, int>> {
 protected:
  PackCodes() : backend_(MakeCpuBackend(1)) {
    std::tie(shape_.format, shape_.rows, shape_.cols) = GetParam();
    bytes_ = backend_->PackedBytes(shape_);
  }
  std::vector<uint16_t> RandomBits() {
    Random random(3);
    const size_t count = static_cast<size_t>(shape_.rows) * shape_.cols;
    std::vector<uint16_t> bits;
    for (const float value : random.Vector(count, -1.0f, 1.0f)) bits.push_back(FloatToBf16(value));
    // A row of zeros has a scale of its own.
    if (shape_.rows > 2) std::fill_n(bits.begin() + 2 * shape_.cols, shape_.cols, uint16_t{0});
    return bits;
  }
  // Poisoned, so that every byte has to be written.
  void* Memory() {
    void* const memory = backend_->Allocate(bytes_);
    std::memset(memory, 0xFF, bytes_);
    return memory;
  }

  std::unique_ptr<Backend> backend_;
  Matrix shape_;
  size_t bytes_ = 0;
};

TEST_P(PackCodes, GivesTheBytesOfPackForItsCodes) {
  const std::vector<uint16_t> bits = RandomBits();
  const CodesOfMatrix codes(shape_.format, bits, shape_.rows, shape_.cols);
  void* const rounded = Memory();
  void* const stored = Memory();
  ASSERT_TRUE(backend_->Pack(rounded, shape_, bits.data()));
  ASSERT_TRUE(backend_->PackCodes(stored, shape_, codes.view()));
  EXPECT_EQ(std::memcmp(rounded, stored, bytes_), 0);
}

// Codes and scales that no rounding gives: the weights are their products.
TEST_P(PackCodes, KeepsCodesAndScalesAsTheyAre) {
  CodesOfMatrix codes(shape_.format, RandomBits(), shape_.rows, shape_.cols);
  const bool int6 = shape_.format == WeightFormat::kInt6;
  for (size_t i = 0; i < codes.codes().size(); ++i)
    codes.codes()[i] = static_cast<uint8_t>(int6 ? 1 + i % 63 : i % 127);
  for (size_t n = 0; n < codes.scales().size(); ++n) codes.scales()[n] = 0.3f + 0.1f * n;
  Matrix matrix = shape_;
  void* const memory = Memory();
  ASSERT_TRUE(backend_->PackCodes(memory, shape_, codes.view()));
  matrix.data = memory;
  std::vector<float> row(static_cast<size_t>(shape_.cols));
  const size_t groups = (row.size() + kInt6Group - 1) / kInt6Group;
  for (int n = 0; n < shape_.rows; ++n) {
    const size_t first = static_cast<size_t>(n) * row.size();
    EXPECT_EQ(LinearUnpackRow(matrix, n, row.data()), int6 ? 1.0f : codes.scales()[n]);
    for (size_t k = 0; k < row.size(); ++k) {
      const uint8_t code = codes.codes()[first + k];
      const uint16_t group = int6 ? codes.view().group_scales[n * groups + k / kInt6Group] : 0;
      const float expected = int6 ? (static_cast<float>(code) - 32.0f) * Bf16ToFloat(group)
                             : shape_.format == WeightFormat::kFp8 ? DecodeE4m3(code)
                                                                   : static_cast<float>(code);
      ASSERT_EQ(row[k], expected) << n << ", " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PackCodes,
    testing::Combine(testing::Values(WeightFormat::kFp8, WeightFormat::kInt8, WeightFormat::kInt6),
                     testing::Values(1, 33, 150), testing::Values(1, 7, 64, 65, 200)));

}  // namespace
}  // namespace tandem
