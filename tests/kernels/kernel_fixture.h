#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/lanes.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

template <class T>
View<const T> ViewOf(const std::vector<T>& values) {
  return {values.data(), values.size()};
}
template <class T>
View<T> ViewOf(std::vector<T>& values) {
  return {values.data(), values.size()};
}

// What no op has written yet.
inline std::vector<float> Poisoned(size_t count) {
  return std::vector<float>(count, std::numeric_limits<float>::quiet_NaN());
}

class Random final {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  // Uniform in [low, high).
  std::vector<float> Vector(size_t count, float low, float high) {
    std::uniform_real_distribution<float> distribution(low, high);
    std::vector<float> values(count);
    for (float& value : values) value = distribution(engine_);
    return values;
  }
  int Int(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

 private:
  std::mt19937 engine_;
};

// A matrix in the backend's layout beside its values, which bf16 holds exactly.
class TestMatrix final {
 public:
  TestMatrix(Backend& backend, Random& random, int rows, int cols, bool sparse_inputs = false)
      : rows_(rows), cols_(cols), values_(static_cast<size_t>(rows) * cols) {
    std::vector<uint16_t> bits(values_.size());
    const std::vector<float> drawn = random.Vector(values_.size(), -1.0f, 1.0f);
    for (size_t i = 0; i < drawn.size(); ++i) {
      bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(drawn[i]) >> 16);
      values_[i] = std::bit_cast<float>(static_cast<uint32_t>(bits[i]) << 16);
    }
    packed_ = {.rows = rows, .cols = cols, .sparse_inputs = sparse_inputs};
    void* memory = backend.Allocate(backend.PackedBytes(packed_));
    EXPECT_TRUE(backend.Pack(memory, packed_, bits.data()));
    packed_.data = memory;
  }

  const Matrix& packed() const { return packed_; }
  int rows() const { return rows_; }
  float At(int row, int col) const { return values_[static_cast<size_t>(row) * cols_ + col]; }

  // W x in double.
  std::vector<double> Times(const std::vector<double>& x) const {
    std::vector<double> y(static_cast<size_t>(rows_), 0.0);
    for (int n = 0; n < rows_; ++n) {
      for (int k = 0; k < cols_; ++k)
        y[static_cast<size_t>(n)] += x[static_cast<size_t>(k)] * At(n, k);
    }
    return y;
  }

 private:
  int rows_, cols_;
  std::vector<float> values_;  // [rows, cols]
  Matrix packed_;
};

// Lanes with memory of their own. `accepted` is by slot.
struct TestLanes {
  std::vector<int32_t> offsets = {0};
  std::vector<int32_t> slots;
  std::vector<int32_t> provisional;
  std::vector<int32_t> accepted;

  void Add(int slot, int certain, int drafts) {
    offsets.push_back(offsets.back() + certain + drafts);
    slots.push_back(slot);
    provisional.push_back(drafts);
  }
  int rows() const { return offsets.back(); }
  Lanes lanes() const {
    return {.count = static_cast<int>(slots.size()),
            .offsets = offsets.data(),
            .slots = slots.data(),
            .provisional = provisional.data(),
            .accepted = accepted.data()};
  }
};

// Rows [first, first + count) of width `width`.
inline std::vector<float> RowsOf(const std::vector<float>& all, int first, int count, int width) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first) * width;
  return {begin, begin + static_cast<std::ptrdiff_t>(count) * width};
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace tandem
