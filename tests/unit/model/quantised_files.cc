#include "tests/unit/model/quantised_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "tests/kernels/e4m3_values.h"

namespace tandem {
namespace {

constexpr int kGroup = 64;

double RoundToBf16(double value) {
  if (value == 0.0) return 0.0;
  const double unit = std::ldexp(1.0, std::ilogb(value) - 7);
  return std::nearbyint(value / unit) * unit;
}

struct Matrix64 {
  size_t rows = 0, cols = 0;
  std::vector<double> values;  // [N, K]

  double Largest(size_t first, size_t count) const {
    double largest = 0.0;
    for (size_t i = first; i < first + count; ++i)
      largest = std::max(largest, std::fabs(values[i]));
    return largest;
  }
};

Matrix64 Read(const TestTensor& tensor) {
  CHECK(tensor.dtype == DType::kBf16 && tensor.shape.size() == 2) << tensor.name;
  Matrix64 matrix = {.rows = static_cast<size_t>(tensor.shape[0]),
                     .cols = static_cast<size_t>(tensor.shape[1])};
  for (size_t i = 0; i < tensor.bytes.size(); i += 2) {
    char bits[4] = {0, 0, tensor.bytes[i], tensor.bytes[i + 1]};
    float value;
    std::memcpy(&value, bits, sizeof(value));
    matrix.values.push_back(value);
  }
  return matrix;
}

// The scales of the rows, or one for all, as fp32 has them; 1 for zeros.
std::vector<float> Scales(const Matrix64& matrix, double limit, bool per_tensor) {
  std::vector<float> scales;
  const size_t count = per_tensor ? matrix.values.size() : matrix.cols;
  for (size_t first = 0; first < matrix.values.size(); first += count) {
    const double largest = matrix.Largest(first, count);
    scales.push_back(largest == 0.0 ? 1.0f : static_cast<float>(largest / limit));
  }
  return scales;
}

std::vector<TestTensor> QuantiseInt6(const TestTensor& tensor, const Matrix64& matrix) {
  std::string high(matrix.values.size() / 2, '\0'), low(matrix.values.size() / 4, '\0');
  std::vector<float> scales;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (i % kGroup == 0)
      scales.push_back(
          static_cast<float>(RoundToBf16(static_cast<float>(matrix.Largest(i, kGroup) / 31.0))));
    const double quotient =
        scales.back() == 0.0f ? 0.0 : std::nearbyint(matrix.values[i] / scales.back());
    const int u = static_cast<int>(std::clamp(quotient, -31.0, 31.0)) + 32;
    high[i / 2] = static_cast<char>(high[i / 2] | (u >> 2) << (i % 2 * 4));
    low[i / 4] = static_cast<char>(low[i / 4] | (u & 3) << (i % 4 * 2));
  }
  const auto rows = static_cast<int64_t>(matrix.rows), cols = static_cast<int64_t>(matrix.cols);
  return {{tensor.name + ".int6_hi", DType::kUint8, {rows, cols / 2}, high},
          {tensor.name + ".int6_lo", DType::kUint8, {rows, cols / 4}, low},
          {tensor.name + ".int6_scale",
           DType::kBf16,
           {rows, cols / kGroup},
           Encode(scales, DType::kBf16)}};
}

}  // namespace

std::vector<std::string> MatrixNames(const TinyShape& shape) {
  std::vector<std::string> names;
  for (int i = 0; i < shape.layers; ++i) {
    for (const char* suffix :
         {"att.receptance", "att.key", "att.value", "att.output", "ffn.key", "ffn.value"}) {
      names.push_back(absl::StrCat("blocks.", i, ".", suffix, ".weight"));
    }
  }
  return names;
}

std::vector<TestTensor> UnevenModel(const TinyShape& shape) {
  std::vector<TestTensor> tensors = TinyModel(DType::kBf16, shape);
  for (const std::string& name : MatrixNames(shape)) {
    TestTensor& tensor = Find(tensors, name);
    const int64_t cols = tensor.shape[1];
    std::vector<float> values;
    for (int64_t i = 0; i < tensor.shape[0] * cols; ++i) {
      const int64_t row = i / cols;
      const bool zero = row == 3 || (row == 5 && i % cols < kGroup);
      const float size =
          std::ldexp(1.0f + static_cast<float>(row % 3) / 4, -static_cast<int>(row % 5));
      values.push_back(zero ? 0.0f : TinyValue(name, i) * size);
    }
    tensor.bytes = Encode(values, DType::kBf16);
  }
  return tensors;
}

std::vector<TestTensor> Quantise(const TestTensor& tensor, Stored stored) {
  const Matrix64 matrix = Read(tensor);
  if (stored == Stored::kInt6) return QuantiseInt6(tensor, matrix);
  const bool fp8 =
      stored == Stored::kFp8 || stored == Stored::kFp8PerTensor || stored == Stored::kFp8Integers;
  const bool per_tensor = stored == Stored::kFp8PerTensor || stored == Stored::kFp8Integers ||
                          stored == Stored::kInt8PerTensor;
  const double limit = fp8 ? 448.0 : 127.0;
  const std::vector<float> scales = Scales(matrix, limit, per_tensor);
  std::string codes;
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    const double scale = scales[per_tensor ? 0 : i / matrix.cols];
    double quotient =
        std::clamp<double>(static_cast<float>(matrix.values[i] / scale), -limit, limit);
    if (!fp8 || stored == Stored::kFp8Integers) quotient = std::nearbyint(quotient);
    codes.push_back(static_cast<char>(fp8 ? NearestE4m3(quotient) : static_cast<int>(quotient)));
  }
  const bool named = stored == Stored::kInt8Weight;
  std::vector<int64_t> scale_shape;
  if (!per_tensor) scale_shape.push_back(tensor.shape[0]);
  return {{tensor.name + (named ? ".int8_weight" : ""), fp8 ? DType::kFp8E4m3 : DType::kInt8,
           tensor.shape, codes},
          {tensor.name + (named ? ".int8_scale" : ".fp8_scale"), DType::kFp32, scale_shape,
           Encode(scales, DType::kFp32)}};
}

void QuantiseIn(std::vector<TestTensor>& tensors, const std::string& name, Stored stored) {
  const std::vector<TestTensor> parts = Quantise(Find(tensors, name), stored);
  Erase(tensors, name);
  tensors.insert(tensors.end(), parts.begin(), parts.end());
}

void QuantiseAll(std::vector<TestTensor>& tensors, Stored stored) {
  for (const std::string& name : MatrixNames()) QuantiseIn(tensors, name, stored);
}

}  // namespace tandem
