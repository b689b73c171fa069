#pragma once

#include "kernels/device_cuda.h"
#include "kernels/accept/accept.h"

namespace tandem {

void AcceptCuda(const AcceptArgs& args, const DeviceCuda& device);

}  // namespace tandem
