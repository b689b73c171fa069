#pragma once

#include "kernels/device_cuda.h"
#include "kernels/replay/replay.h"

namespace tandem {

void ReplayCuda(const ReplayArgs& args, const DeviceCuda& device);

}  // namespace tandem
