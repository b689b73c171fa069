#pragma once

#include "kernels/channel_mix_value/channel_mix_value.h"
#include "kernels/device_cuda.h"

namespace tandem {

void ChannelMixValueCuda(const ChannelMixValueArgs& args, const DeviceCuda& device);

}  // namespace tandem
