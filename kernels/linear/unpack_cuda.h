#pragma once

#include <cstddef>

#include "kernels/device_cuda.h"
#include "kernels/linear/linear.h"

namespace tandem {

// Outputs at which an unpacked part of a matrix may begin, and those to which it is padded.
inline constexpr int kUnpackedPart = 128;
inline constexpr int kUnpackedPadding = 16;

// Outputs [first, first + count) of a packed matrix to [count and zeros up to kUnpackedPadding,
// stride], K and zeros up to `stride`, a multiple of 64: as bf16, or with `e4m3` the codes of Fp8.
// What its sums are multiplied by is not in it, see OutputScales; the scales of Int6 are, rounded.
void UnpackCuda(const Matrix& matrix, int first, int count, bool e4m3, void* to, size_t stride,
                const DeviceCuda& device);

// [rows] scales of fp32 that belong to a packed matrix of Fp8 or Int8; null for other formats.
const float* OutputScales(const Matrix& matrix);

}  // namespace tandem
