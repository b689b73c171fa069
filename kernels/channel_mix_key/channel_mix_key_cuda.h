#pragma once

#include "kernels/device_cuda.h"
#include "kernels/channel_mix_key/channel_mix_key.h"

namespace tandem {

void ChannelMixKeyCuda(const ChannelMixKeyArgs& args, const DeviceCuda& device);

}  // namespace tandem
