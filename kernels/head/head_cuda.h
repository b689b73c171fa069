#pragma once

#include "kernels/device_cuda.h"
#include "kernels/head/head.h"

namespace tandem {

void HeadCuda(const HeadArgs& args, const DeviceCuda& device);

}  // namespace tandem
