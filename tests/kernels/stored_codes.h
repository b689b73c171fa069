#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/linear/linear.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

namespace tandem {

// The codes that packing a bf16 matrix [N, K] rounds it to, in the order of a file.
class CodesOfMatrix final {
 public:
  CodesOfMatrix(WeightFormat format, const std::vector<uint16_t>& bf16, int rows, int cols)
      : format_(format), cols_(static_cast<size_t>(cols)) {
    Matrix matrix = {.format = format, .rows = rows, .cols = cols};
    std::vector<uint64_t> memory(LinearPackedBytes(format, rows, cols) / 8 + 1);
    LinearPack(memory.data(), format, bf16.data(), rows, cols);
    matrix.data = memory.data();
    std::vector<float> values(cols_);
    for (int n = 0; n < rows; ++n) {
      scales_.push_back(LinearUnpackRow(matrix, n, values.data()));
      AddRow(values, bf16.data() + static_cast<size_t>(n) * cols_);
    }
  }

  MatrixCodes view() const {
    return {.codes = codes_.data(), .scales = scales_.data(), .group_scales = groups_.data()};
  }
  std::vector<uint8_t>& codes() { return codes_; }
  std::vector<float>& scales() { return scales_; }

 private:
  void AddRow(const std::vector<float>& values, const uint16_t* bf16) {
    for (size_t k = 0; k < cols_; ++k) {
      if (format_ == WeightFormat::kInt6 && k % kInt6Group == 0) {
        const int count = static_cast<int>(std::min<size_t>(kInt6Group, cols_ - k));
        groups_.push_back(Int6Scale(LargestMagnitude(bf16 + k, count)));
      }
      codes_.push_back(Code(values[k]));
    }
  }
  uint8_t Code(float value) const {
    if (format_ == WeightFormat::kFp8) return EncodeE4m3(value);
    if (format_ == WeightFormat::kInt8) return static_cast<uint8_t>(static_cast<int>(value));
    return static_cast<uint8_t>(static_cast<int>(value / Bf16ToFloat(groups_.back())) + kInt6Zero);
  }

  WeightFormat format_;
  size_t cols_;
  std::vector<uint8_t> codes_;    // [N, K]
  std::vector<float> scales_;     // [N]
  std::vector<uint16_t> groups_;  // [N, ceil(K / 64)]
};

}  // namespace tandem
