#include "common/model/tensor_convert.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "kernels/linear/quantize.h"

namespace tandem {
namespace {

template <typename T>
T Load(const uint8_t* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
  return value;
}

float FloatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Finite values only.
float FloatFromFp16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t mantissa = half & 1023;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return FloatFromBits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// The index of the first element whose exponent bits are all set, or `count`.
template <typename T>
size_t FirstNotFinite(const uint8_t* bytes, size_t count, T exponent) {
  constexpr size_t kBlock = 4096;
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t end = std::min(count, start + kBlock);
    uint32_t bad = 0;
    for (size_t i = start; i < end; ++i) {
      bad |= static_cast<uint32_t>((Load<T>(bytes, i) & exponent) == exponent);
    }
    if (bad == 0) continue;
    for (size_t i = start; i < end; ++i) {
      if ((Load<T>(bytes, i) & exponent) == exponent) return i;
    }
  }
  return count;
}

// Calls put(i, value) for every position i of the (transposed) result.
template <typename Read, typename Put>
void ForEach(const TensorInfo& tensor, bool transpose, Read read, Put put) {
  const size_t count = tensor.bytes.size() / DTypeSize(tensor.dtype);
  if (!transpose) {
    for (size_t i = 0; i < count; ++i) put(i, read(i));
    return;
  }
  CHECK_EQ(tensor.shape.size(), 2u);
  const size_t rows = static_cast<size_t>(tensor.shape[0]);
  const size_t columns = static_cast<size_t>(tensor.shape[1]);
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) {
      put(column * rows + row, read(row * columns + column));
    }
  }
}

template <typename Put>
void ForEachFloat(const TensorInfo& tensor, bool transpose, Put put) {
  const uint8_t* bytes = tensor.bytes.data();
  if (tensor.dtype == DType::kBf16) {
    const auto read = [bytes](size_t i) {
      return FloatFromBits(static_cast<uint32_t>(Load<uint16_t>(bytes, i)) << 16);
    };
    ForEach(tensor, transpose, read, put);
  } else if (tensor.dtype == DType::kFp16) {
    const auto read = [bytes](size_t i) { return FloatFromFp16(Load<uint16_t>(bytes, i)); };
    ForEach(tensor, transpose, read, put);
  } else {
    CHECK(tensor.dtype == DType::kFp32) << tensor.name << " is " << DTypeName(tensor.dtype);
    ForEach(
        tensor, transpose, [bytes](size_t i) { return Load<float>(bytes, i); }, put);
  }
}

}  // namespace

absl::Status CheckFinite(const TensorInfo& tensor) {
  CHECK(IsLoadable(tensor.dtype)) << tensor.name;
  const uint8_t* bytes = tensor.bytes.data();
  const size_t count = tensor.bytes.size() / DTypeSize(tensor.dtype);
  size_t bad = count;
  if (tensor.dtype == DType::kBf16) {
    bad = FirstNotFinite<uint16_t>(bytes, count, 0x7F80);
  } else if (tensor.dtype == DType::kFp16) {
    bad = FirstNotFinite<uint16_t>(bytes, count, 0x7C00);
  } else {
    bad = FirstNotFinite<uint32_t>(bytes, count, 0x7F800000);
  }
  if (bad == count) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(tensor.file, ": tensor ", tensor.name, ": element ", bad, " of ", count,
                   " is NaN or infinite; every weight must be finite, so the file is damaged"));
}

void ConvertToFp32(const TensorInfo& tensor, bool transpose, absl::Span<float> out) {
  CHECK_EQ(out.size(), tensor.bytes.size() / DTypeSize(tensor.dtype));
  ForEachFloat(tensor, transpose, [out](size_t i, float value) { out[i] = value; });
}

void ConvertToBf16(const TensorInfo& tensor, bool transpose, absl::Span<uint16_t> out) {
  CHECK_EQ(out.size(), tensor.bytes.size() / DTypeSize(tensor.dtype));
  if (tensor.dtype == DType::kBf16 && !transpose) {
    if (!out.empty()) std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return;
  }
  ForEachFloat(tensor, transpose, [out](size_t i, float value) { out[i] = FloatToBf16(value); });
}

std::vector<uint8_t> TransposedBytes(const TensorInfo& tensor) {
  const size_t width = DTypeSize(tensor.dtype);
  std::vector<uint8_t> out(tensor.bytes.size());
  const auto copy = [&](size_t to, size_t from) {
    std::memcpy(out.data() + to * width, tensor.bytes.data() + from * width, width);
  };
  ForEach(
      tensor, /*transpose=*/true, [](size_t i) { return i; }, copy);
  return out;
}

}  // namespace tandem
