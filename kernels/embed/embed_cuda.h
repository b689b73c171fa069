#pragma once

#include "kernels/device_cuda.h"
#include "kernels/embed/embed.h"

namespace tandem {

void EmbedCuda(const EmbedArgs& args, const DeviceCuda& device);

}  // namespace tandem
