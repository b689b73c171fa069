#pragma once

#include "kernels/device_cuda.h"
#include "kernels/channel_mix_value/channel_mix_value.h"

namespace tandem {

void ChannelMixValueCuda(const ChannelMixValueArgs& args, const DeviceCuda& device);

}  // namespace tandem
