#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device_cuda.h"
#include "kernels/linear/linear.h"

namespace tandem {

// The CUDA layouts of a matrix: bytes, and packing from bf16 [rows, cols] or from codes in
// device memory.
size_t LinearPackedBytesCuda(const Matrix& shape);
void LinearPackCuda(void* to, const Matrix& shape, const uint16_t* bf16, const DeviceCuda& device);
void LinearPackCodesCuda(void* to, const Matrix& shape, const MatrixCodes& codes,
                         const DeviceCuda& device);

void LinearCuda(const LinearArgs& args, const DeviceCuda& device);

// Independent linear ops in one launch; at most kMostLinearJobs, equal in LinearArgs::rows, none
// of a matrix with sparse_inputs.
inline constexpr int kMostLinearJobs = 8;
void LinearManyCuda(const LinearArgs* jobs, int count, const DeviceCuda& device);

}  // namespace tandem
