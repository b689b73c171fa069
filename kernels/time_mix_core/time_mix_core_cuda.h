#pragma once

#include "kernels/device_cuda.h"
#include "kernels/time_mix_core/time_mix_core.h"

namespace tandem {

void TimeMixCoreCuda(const TimeMixCoreArgs& args, const DeviceCuda& device);

}  // namespace tandem
