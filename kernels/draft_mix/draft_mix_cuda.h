#pragma once

#include "kernels/device_cuda.h"
#include "kernels/draft_mix/draft_mix.h"

namespace tandem {

void DraftMixCuda(const DraftMixArgs& args, const DeviceCuda& device);

}  // namespace tandem
