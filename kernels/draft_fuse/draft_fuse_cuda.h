#pragma once

#include "kernels/device_cuda.h"
#include "kernels/draft_fuse/draft_fuse.h"

namespace tandem {

void DraftFuseCuda(const DraftFuseArgs& args, const DeviceCuda& device);

}  // namespace tandem
