#pragma once

#include "kernels/device_cuda.h"
#include "kernels/draft_head/draft_head.h"

namespace tandem {

void DraftHeadCuda(const DraftHeadArgs& args, const DeviceCuda& device);

}  // namespace tandem
