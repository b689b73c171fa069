#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/quantize.h"

namespace tandem {

// The CPU layout of formats with a byte per weight and a scale per output:
// [N / 32 blocks][K inputs][32 outputs] codes, then [N / 32 blocks][32] scales of fp32; N is padded
// with zeros.

// Bytes before the scales.
inline size_t CodeBytes(int rows, int cols) {
  return static_cast<size_t>(LinearBlocks(rows)) * cols * kLinearBlock;
}

inline size_t CodesPackedBytes(int rows, int cols) {
  return CodeBytes(rows, cols) + LinearBlocks(rows) * kLinearBlock * sizeof(float);
}

// Where the code of weight [row, col] stands.
inline size_t CodeIndex(int row, int col, int cols) {
  return (static_cast<size_t>(row / kLinearBlock) * cols + col) * kLinearBlock + row % kLinearBlock;
}

// A Format has kLargest, the largest magnitude of a code; Encode(value, scale), the code of a
// weight; Decode(code), its value before the scale.
template <class Format>
void PackCodes(void* to, const uint16_t* bf16, int rows, int cols) {
  uint8_t* codes = static_cast<uint8_t*>(to);
  std::memset(to, 0, CodesPackedBytes(rows, cols));
  float* scales = reinterpret_cast<float*>(codes + CodeBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    const uint16_t* from = bf16 + static_cast<size_t>(row) * cols;
    scales[row] = ScaleOf(LargestMagnitude(from, cols), Format::kLargest);
    for (int col = 0; col < cols; ++col)
      codes[CodeIndex(row, col, cols)] = Format::Encode(Bf16ToFloat(from[col]), scales[row]);
  }
}

// The same from codes as they are.
inline void PackStoredCodes(void* to, const MatrixCodes& stored, int rows, int cols) {
  uint8_t* codes = static_cast<uint8_t*>(to);
  std::memset(to, 0, CodesPackedBytes(rows, cols));
  std::memcpy(codes + CodeBytes(rows, cols), stored.scales,
              static_cast<size_t>(rows) * sizeof(float));
  for (int row = 0; row < rows; ++row) {
    const uint8_t* from = stored.codes + static_cast<size_t>(row) * cols;
    for (int col = 0; col < cols; ++col) codes[CodeIndex(row, col, cols)] = from[col];
  }
}

template <class Format>
float UnpackCodesRow(const Matrix& matrix, int row, float* to) {
  const uint8_t* codes = static_cast<const uint8_t*>(matrix.data);
  for (int col = 0; col < matrix.cols; ++col)
    to[col] = Format::Decode(codes[CodeIndex(row, col, matrix.cols)]);
  return reinterpret_cast<const float*>(codes + CodeBytes(matrix.rows, matrix.cols))[row];
}

}  // namespace tandem
