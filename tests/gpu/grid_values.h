#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {

// Multiples of 1/16 from -1 to 1: bf16 holds them, and fp32 any sum of up to 65536 products of two
// of them, so that a matrix product of such values has one result in every order of summation.
inline std::vector<float> GridValues(Random& random, size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.Int(-16, 16)) / 16.0f;
  return values;
}

// A matrix [rows, cols] of grid values in the backend's layout.
inline Matrix GridMatrix(Backend& backend, Random& random, int rows, int cols,
                         bool sparse_inputs = false) {
  const std::vector<float> values =
      GridValues(random, static_cast<size_t>(rows) * static_cast<size_t>(cols));
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    bits[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[i]) >> 16);
  }
  Matrix matrix = {.rows = rows, .cols = cols, .sparse_inputs = sparse_inputs};
  void* const memory = backend.Allocate(backend.PackedBytes(matrix));
  EXPECT_TRUE(backend.Pack(memory, matrix, bits.data()));
  matrix.data = memory;
  return matrix;
}

}  // namespace tandem
