#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/random/random.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

constexpr RandomFill kFill = {.seed = 0x123456789abcdef0u, .scale = 0.37f, .mean = -0.01f};

TEST(RandomCudaTest, NumbersHaveTheBitsOfTheCpu) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  OnDevice device(*cuda);
  for (const size_t count : {size_t{1}, size_t{6}, size_t{4096}, size_t{3000001}}) {
    const View<float> values = device.Out<float>(count);
    cuda->FillRandom(values.data, count, kFill);
    std::vector<float> expected(count);
    FillRandomCpu(expected.data(), count, kFill);
    EXPECT_EQ(device.Read(values), expected) << count;
  }
}

TEST(RandomCudaTest, PackedNumbersAreThoseOfTheCpuPacked) {
  const std::unique_ptr<Backend> cuda = CudaOrNull();
  if (cuda == nullptr) GTEST_SKIP() << "no CUDA device";
  OnDevice device(*cuda);
  constexpr int kRows = 192, kCols = 256;
  std::vector<uint16_t> bf16(kRows * kCols);
  FillRandomBf16Cpu(bf16.data(), bf16.size(), kFill);
  for (const WeightFormat format :
       {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kInt8, WeightFormat::kInt6}) {
    for (const bool sparse : {false, true}) {
      const Matrix shape = {
          .format = format, .rows = kRows, .cols = kCols, .sparse_inputs = sparse};
      const View<uint8_t> packed = device.Out<uint8_t>(cuda->PackedBytes(shape));
      const View<uint8_t> random = device.Out<uint8_t>(cuda->PackedBytes(shape));
      EXPECT_TRUE(cuda->Pack(packed.data, shape, bf16.data()));
      EXPECT_TRUE(cuda->PackRandom(random.data, shape, kFill));
      EXPECT_EQ(device.Read(random), device.Read(packed)) << static_cast<int>(format) << sparse;
    }
  }
}

}  // namespace
}  // namespace tandem
