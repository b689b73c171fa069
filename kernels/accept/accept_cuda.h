#pragma once

#include "kernels/accept/accept.h"
#include "kernels/device_cuda.h"

namespace tandem {

void AcceptCuda(const AcceptArgs& args, const DeviceCuda& device);

}  // namespace tandem
