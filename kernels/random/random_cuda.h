#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device_cuda.h"
#include "kernels/random/random.h"

namespace tandem {

// `to` [count] in device memory, 16-byte aligned.
void FillRandomCuda(float* to, size_t count, const RandomFill& fill, const DeviceCuda& device);
// The same numbers rounded to bf16, to nearest even.
void FillRandomBf16Cuda(uint16_t* to, size_t count, const RandomFill& fill,
                        const DeviceCuda& device);

}  // namespace tandem
