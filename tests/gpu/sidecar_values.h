#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "tests/gpu/on_device.h"

namespace tandem {

struct HostMatrix {
  Matrix shape;
  std::vector<uint16_t> bf16;  // [rows, cols]
};

// Random numbers, quick enough for matrices of real sizes.
class SidecarValues final {
 public:
  explicit SidecarValues(uint64_t seed) : state_(seed) {}

  // Uniform, with this deviation and mean.
  float Number(float spread, float mean) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t bits = (state_ ^ state_ >> 30) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
    const float unit = static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f;
    return mean + spread * std::sqrt(3.0f) * unit;
  }
  int Int(int low, int high) {
    const float unit = (Number(1.0f / std::sqrt(3.0f), 0.0f) + 1.0f) / 2.0f;
    return std::min(high, low + static_cast<int>(unit * static_cast<float>(high - low + 1)));
  }
  std::vector<float> Vector(size_t count, float spread = 1.0f, float mean = 0.0f) {
    std::vector<float> values(count);
    for (float& value : values) value = Number(spread, mean);
    return values;
  }
  // Products with it are of the size of what is multiplied.
  HostMatrix Random(int rows, int cols, bool sparse_inputs = false) {
    HostMatrix matrix{.shape = {.rows = rows, .cols = cols, .sparse_inputs = sparse_inputs},
                      .bf16 = std::vector<uint16_t>(static_cast<size_t>(rows) * cols)};
    const float spread = 1.0f / std::sqrt(static_cast<float>(cols));
    for (uint16_t& bits : matrix.bf16)
      bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(Number(spread, 0.0f)) >> 16);
    return matrix;
  }

 private:
  uint64_t state_;
};

inline Matrix Put(Backend& backend, const HostMatrix& matrix) {
  Matrix packed = matrix.shape;
  void* const memory = backend.Allocate(backend.PackedBytes(packed));
  EXPECT_TRUE(backend.Pack(memory, packed, matrix.bf16.data()));
  packed.data = memory;
  return packed;
}

// The rows `indices` of `all` [rows, width].
inline std::vector<float> Select(const std::vector<float>& all, const std::vector<int>& indices,
                                 size_t width) {
  std::vector<float> rows;
  for (const int i : indices)
    rows.insert(rows.end(), all.begin() + i * width, all.begin() + (i + 1) * width);
  return rows;
}

// fp32 sums in another order, of activations in 16 bits of mantissa.
inline void ExpectClose(const std::vector<float>& got, const std::vector<float>& want,
                        const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  float largest = 1.0f;
  for (const float value : want) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got[i], want[i], 2e-4f * largest) << what << " at " << i;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A row of `many` equals the only row of `one`, bit for bit.
inline bool SameRow(const std::vector<float>& many, int index, const std::vector<float>& one) {
  return SameBits(Select(many, {index}, one.size()), one);
}

}  // namespace tandem
