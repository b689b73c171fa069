#pragma once

#include "kernels/device_cuda.h"
#include "kernels/time_mix_out/time_mix_out.h"

namespace tandem {

void TimeMixOutCuda(const TimeMixOutArgs& args, const DeviceCuda& device);

}  // namespace tandem
