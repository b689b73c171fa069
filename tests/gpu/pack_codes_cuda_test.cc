#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/linear_rig.h"
#include "tests/kernels/stored_codes.h"

namespace tandem {
namespace {

class PackCodesCudaTest : public testing::Test {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }
  static std::vector<LinearKind> Kinds() {
    std::vector<LinearKind> kinds = LinearKinds();
    std::erase_if(kinds, [](const LinearKind& kind) { return kind.format == WeightFormat::kBf16; });
    return kinds;
  }
  static Matrix Shape(const LinearKind& kind, int rows, int cols) {
    return {.format = kind.format, .rows = rows, .cols = cols, .sparse_inputs = kind.sparse_inputs};
  }
  static std::vector<uint16_t> RandomBits(int rows, int cols) {
    Random random(9);
    std::vector<uint16_t> bits;
    for (const float value : random.Vector(static_cast<size_t>(rows) * cols, -1.0f, 1.0f))
      bits.push_back(FloatToBf16(value));
    if (rows > 2) std::fill_n(bits.begin() + 2 * cols, cols, uint16_t{0});
    return bits;
  }

  std::unique_ptr<Backend> cuda_;
};

// Every byte, padding included: the memory is poisoned before.
TEST_F(PackCodesCudaTest, BytesAreThoseOfPackForItsCodes) {
  OnDevice device(*cuda_);
  for (const auto& [rows, cols] : {std::pair(1, 1), std::pair(37, 51), std::pair(130, 200),
                                   std::pair(256, 64), std::pair(512, 2048)}) {
    const std::vector<uint16_t> bits = RandomBits(rows, cols);
    for (const LinearKind& kind : Kinds()) {
      const Matrix shape = Shape(kind, rows, cols);
      const CodesOfMatrix codes(kind.format, bits, rows, cols);
      const View<uint8_t> rounded = device.Out<uint8_t>(cuda_->PackedBytes(shape));
      const View<uint8_t> stored = device.Out<uint8_t>(cuda_->PackedBytes(shape));
      ASSERT_TRUE(cuda_->Pack(rounded.data, shape, bits.data()));
      ASSERT_TRUE(cuda_->PackCodes(stored.data, shape, codes.view()));
      EXPECT_EQ(device.Read(stored), device.Read(rounded))
          << KindName(kind) << " " << rows << " x " << cols;
    }
  }
}

// Scales that no rounding gives; with one input of 1 a sum is the weight, code times scale.
TEST_F(PackCodesCudaTest, WeightsAreCodesTimesScales) {
  OnDevice device(*cuda_);
  constexpr int kRows = 130, kCols = 200;
  const std::vector<uint16_t> bits = RandomBits(kRows, kCols);
  std::vector<float> x(kCols * kCols, 0.0f);
  for (size_t k = 0; k < kCols; ++k) x[k * kCols + k] = 1.0f;
  for (const LinearKind& kind : Kinds()) {
    if (kind.format == WeightFormat::kInt6) continue;
    CodesOfMatrix codes(kind.format, bits, kRows, kCols);
    for (float& scale : codes.scales()) scale = 0.3f;
    Matrix matrix = Shape(kind, kRows, kCols);
    const View<uint8_t> memory = device.Out<uint8_t>(cuda_->PackedBytes(matrix));
    ASSERT_TRUE(cuda_->PackCodes(memory.data, matrix, codes.view()));
    matrix.data = memory.data;
    const View<float> y = device.Out<float>(kCols * kRows);
    cuda_->Linear(WholeRows(kCols, matrix, device.In(x), y));
    const std::vector<float> sums = device.Read(y);
    for (size_t k = 0; k < kCols; ++k) {
      for (size_t n = 0; n < kRows; ++n) {
        const uint8_t code = codes.codes()[n * kCols + k];
        const float value = kind.format == WeightFormat::kFp8
                                ? DecodeE4m3(code)
                                : static_cast<float>(static_cast<int8_t>(code));
        ASSERT_EQ(sums[k * kRows + n], value * 0.3f) << KindName(kind) << " " << n << ", " << k;
      }
    }
  }
}

// Packing without memory to stage says so, and the backend goes on.
TEST_F(PackCodesCudaTest, TooLittleMemoryIsFalse) {
  constexpr int kRows = 16384, kCols = 8192;  // 256 MiB of bf16, 128 MiB of codes
  const Matrix shape = {.format = WeightFormat::kFp8, .rows = kRows, .cols = kCols};
  const std::vector<uint16_t> bits(static_cast<size_t>(kRows) * kCols, 0x3f80);
  const std::vector<uint8_t> ones(bits.size(), 0x38);
  const std::vector<float> scales(kRows, 1.0f);
  void* const to = cuda_->Allocate(cuda_->PackedBytes(shape));
  ASSERT_NE(to, nullptr);
  const std::optional<size_t> free = cuda_->FreeBytes();
  ASSERT_TRUE(free.has_value());
  if (cuda_->Allocate(*free - (size_t{64} << 20)) == nullptr)
    GTEST_SKIP() << "another process uses the device";
  EXPECT_LT(*cuda_->FreeBytes(), size_t{65} << 20);
  EXPECT_FALSE(cuda_->Pack(to, shape, bits.data()));
  EXPECT_FALSE(cuda_->PackCodes(to, shape, {.codes = ones.data(), .scales = scales.data()}));
  const Matrix small = {.format = WeightFormat::kFp8, .rows = 16, .cols = 64};
  EXPECT_TRUE(cuda_->Pack(to, small, bits.data()));
  OnDevice device(*cuda_);
  EXPECT_EQ(device.Read(device.In<int>({1, 2})), (std::vector<int>{1, 2}));
}

}  // namespace
}  // namespace tandem
