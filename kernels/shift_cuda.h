#pragma once

#include "kernels/device_cuda.h"
#include "kernels/shift.h"
#include "kernels/view.h"

namespace tandem {

void ShiftMixCuda(const ShiftMix& args, const DeviceCuda& device);

// Makes the last accepted log entry of each slot its committed row. slots [n] distinct, accepted
// [S] by slot.
void ReplayShiftCuda(const ShiftState& shift, View<const int32_t> slots, const int32_t* accepted,
                     int width, const DeviceCuda& device);

}  // namespace tandem
