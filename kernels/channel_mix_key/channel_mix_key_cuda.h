#pragma once

#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/device_cuda.h"

namespace tandem {

void ChannelMixKeyCuda(const ChannelMixKeyArgs& args, const DeviceCuda& device);

}  // namespace tandem
