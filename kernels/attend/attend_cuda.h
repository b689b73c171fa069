#pragma once

#include "kernels/attend/attend.h"
#include "kernels/device_cuda.h"

namespace tandem {

void AttendCuda(const AttendArgs& args, const DeviceCuda& device);

}  // namespace tandem
