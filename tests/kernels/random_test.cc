#include "kernels/random/random.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/linear/quantize.h"

namespace tandem {
namespace {

// The block of counter 0 and key 0, as the Random123 distribution's known answers have it.
TEST(RandomTest, NumbersAreTheKnownPhiloxBitsScaled) {
  std::vector<float> values(4);
  MakeCpuBackend(1)->FillRandom(values.data(), 4, {.seed = 0, .scale = 2.0f, .mean = 10.0f});
  const uint32_t known[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
  for (int i = 0; i < 4; ++i) {
    const double unit = std::sqrt(3.0) * static_cast<int32_t>(known[i]) / 2147483648.0;
    EXPECT_NEAR(values[i], 10.0 + 2.0 * unit, 1e-5) << i;
  }
}

TEST(RandomTest, MeanAndDeviationAreTheOnesAskedFor) {
  std::vector<float> values(200000);
  FillRandomCpu(values.data(), values.size(), {.seed = 7, .scale = 0.5f, .mean = -3.0f});
  double sum = 0.0, squares = 0.0, largest = 0.0;
  for (const float value : values) {
    sum += value;
    squares += (value + 3.0) * (value + 3.0);
    largest = std::max(largest, std::fabs(value + 3.0));
  }
  const double count = static_cast<double>(values.size());
  EXPECT_NEAR(sum / count, -3.0, 0.005);
  EXPECT_NEAR(std::sqrt(squares / count), 0.5, 0.005);
  EXPECT_LE(largest, 0.5 * std::sqrt(3.0) + 1e-6);
}

TEST(RandomTest, ANumberDependsOnSeedAndIndexOnly) {
  std::vector<float> some(5), more(11), other(5);
  FillRandomCpu(some.data(), some.size(), {.seed = 1});
  FillRandomCpu(more.data(), more.size(), {.seed = 1});
  FillRandomCpu(other.data(), other.size(), {.seed = uint64_t{1} << 32 | 1});
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i], more[i]);
    EXPECT_NE(some[i], other[i]);
  }
}

TEST(RandomTest, PackedNumbersAreTheFilledOnesRounded) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend(1);
  constexpr int kRows = 8, kCols = 64;
  const RandomFill fill = {.seed = 3, .scale = 0.25f};
  std::vector<float> values(kRows * kCols);
  cpu->FillRandom(values.data(), values.size(), fill);
  std::vector<uint16_t> bf16;
  for (const float value : values) bf16.push_back(FloatToBf16(value));
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kInt6}) {
    const Matrix shape = {.format = format, .rows = kRows, .cols = kCols};
    const size_t bytes = cpu->PackedBytes(shape);
    auto* const packed = static_cast<uint8_t*>(cpu->Allocate(bytes));
    auto* const random = static_cast<uint8_t*>(cpu->Allocate(bytes));
    EXPECT_TRUE(cpu->Pack(packed, shape, bf16.data()));
    EXPECT_TRUE(cpu->PackRandom(random, shape, fill));
    EXPECT_EQ(std::vector<uint8_t>(packed, packed + bytes),
              std::vector<uint8_t>(random, random + bytes));
  }
}

}  // namespace
}  // namespace tandem
