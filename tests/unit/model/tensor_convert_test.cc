#include "common/model/tensor_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tandem {
namespace {

template <typename T>
TensorInfo Tensor(const std::vector<T>& values, DType dtype, std::vector<int64_t> shape) {
  return {.name = "w",
          .dtype = dtype,
          .shape = std::move(shape),
          .file = "f",
          .bytes = {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)}};
}

// Every finite fp16: (-1)^s · 2^(e-15) · (1 + m/1024), or (-1)^s · 2^-14 · m/1024 when e is 0.
TEST(TensorConvertTest, EveryFiniteFp16IsExact) {
  std::vector<uint16_t> halves;
  std::vector<float> expected;
  for (int bits = 0; bits < 65536; ++bits) {
    const int e = (bits >> 10) & 31;
    const int m = bits & 1023;
    if (e == 31) continue;
    const double magnitude =
        e == 0 ? std::pow(2.0, -14) * m / 1024 : std::pow(2.0, e - 15) * (1 + m / 1024.0);
    halves.push_back(static_cast<uint16_t>(bits));
    expected.push_back(static_cast<float>((bits & 0x8000) != 0 ? -magnitude : magnitude));
  }
  std::vector<float> out(halves.size());
  ConvertToFp32(Tensor(halves, DType::kFp16, {static_cast<int64_t>(halves.size())}), false,
                absl::MakeSpan(out));
  EXPECT_EQ(out, expected);
  EXPECT_TRUE(std::signbit(out[halves.size() / 2]));  // minus zero
}

TEST(TensorConvertTest, Bf16RoundsToNearestEven) {
  // 1 + 2^-8 is half way between 1 (even) and 1 + 2^-7 (odd); 1 + 3·2^-8 between 1 + 2^-7 and 1 +
  // 2^-6.
  const std::vector<float> values = {1.0f,
                                     1.0f + std::ldexp(1.0f, -8),
                                     1.0f + std::ldexp(1.0f, -8) + std::ldexp(1.0f, -20),
                                     1.0f + 3 * std::ldexp(1.0f, -8),
                                     -1.0f - std::ldexp(1.0f, -8),
                                     0.0f,
                                     -0.0f};
  const std::vector<uint16_t> expected = {0x3F80, 0x3F80, 0x3F81, 0x3F82, 0xBF80, 0x0000, 0x8000};
  std::vector<uint16_t> out(values.size());
  ConvertToBf16(Tensor(values, DType::kFp32, {7}), false, absl::MakeSpan(out));
  EXPECT_EQ(out, expected);
}

TEST(TensorConvertTest, Bf16IsCopiedBitForBit) {
  std::vector<uint16_t> values;
  for (int bits = 0; bits < 65536; ++bits) values.push_back(static_cast<uint16_t>(bits));
  std::vector<uint16_t> out(values.size());
  ConvertToBf16(Tensor(values, DType::kBf16, {65536}), false, absl::MakeSpan(out));
  EXPECT_EQ(out, values);
}

TEST(TensorConvertTest, Transposes) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};  // [2, 3]
  const TensorInfo tensor = Tensor(values, DType::kFp32, {2, 3});
  std::vector<float> out(6);
  ConvertToFp32(tensor, /*transpose=*/true, absl::MakeSpan(out));
  EXPECT_EQ(out, (std::vector<float>{1, 4, 2, 5, 3, 6}));
  std::vector<uint16_t> bf16(6);
  ConvertToBf16(tensor, /*transpose=*/true, absl::MakeSpan(bf16));
  EXPECT_EQ(bf16, (std::vector<uint16_t>{0x3F80, 0x4080, 0x4000, 0x40A0, 0x4040, 0x40C0}));
  const std::vector<uint8_t> bytes = TransposedBytes(tensor);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  EXPECT_EQ(out, (std::vector<float>{1, 4, 2, 5, 3, 6}));
}

TEST(TensorConvertTest, TheFirstValueThatIsNotFiniteIsNamed) {
  for (size_t at : {size_t{0}, size_t{4095}, size_t{4096}, size_t{9999}}) {
    std::vector<float> values(10000, -3.4e38f);
    EXPECT_TRUE(CheckFinite(Tensor(values, DType::kFp32, {10000})).ok());
    values[at] = -INFINITY;
    values.back() = NAN;
    const absl::Status status = CheckFinite(Tensor(values, DType::kFp32, {10000}));
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("element " + std::to_string(at) + " of 10000"));
  }
  std::vector<uint16_t> bits = {0x7BFF,
                                0x7C01};  // the largest fp16, an fp16 NaN; both finite as bf16
  EXPECT_FALSE(CheckFinite(Tensor(bits, DType::kFp16, {2})).ok());
  EXPECT_TRUE(CheckFinite(Tensor(bits, DType::kBf16, {2})).ok());
  bits = {0x7F7F, 0xFF80};  // the largest bf16, minus infinity
  EXPECT_FALSE(CheckFinite(Tensor(bits, DType::kBf16, {2})).ok());
}

}  // namespace
}  // namespace tandem
