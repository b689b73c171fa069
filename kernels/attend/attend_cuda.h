#pragma once

#include "kernels/device_cuda.h"
#include "kernels/attend/attend.h"

namespace tandem {

void AttendCuda(const AttendArgs& args, const DeviceCuda& device);

}  // namespace tandem
