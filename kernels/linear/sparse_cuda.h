#pragma once

#include "kernels/device_cuda.h"
#include "kernels/linear/linear.h"

namespace tandem {

// LinearCuda for a matrix with sparse_inputs.
void SparseLinearCuda(const LinearArgs& args, const DeviceCuda& device);

}  // namespace tandem
