#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear.h"

namespace tandem {

// What a weight format brings to the CPU; the contracts are those of kernels/linear/linear_cpu.h.
struct LinearFormatCpu {
  size_t (*packed_bytes)(int rows, int cols);
  void (*pack)(void* to, const uint16_t* bf16, int rows, int cols);
  void (*pack_codes)(void* to, const MatrixCodes& codes, int rows, int cols);  // null for Bf16
  float (*unpack_row)(const Matrix& matrix, int row, float* to);
  void (*part)(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row);
};

// Linear<Name>Cpu() for every line of formats.def, defined in kernels/linear/<folder>/.
#define TANDEM_WEIGHT_FORMAT(name, folder) const LinearFormatCpu& Linear##name##Cpu();
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT

}  // namespace tandem
