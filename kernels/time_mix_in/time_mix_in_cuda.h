#pragma once

#include "kernels/device_cuda.h"
#include "kernels/time_mix_in/time_mix_in.h"

namespace tandem {

void TimeMixInCuda(const TimeMixInArgs& args, const DeviceCuda& device);

}  // namespace tandem
