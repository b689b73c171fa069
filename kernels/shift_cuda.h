#pragma once

#include "kernels/device_cuda.h"
#include "kernels/lanes.h"
#include "kernels/shift.h"
#include "kernels/view.h"

namespace tandem {

// What both mixing ops do before their projections: layer norm, token shift and n mixes with the
// previous row of the lane; before its first row stands the committed shift, after the replay of
// its log. Commits the last certain row of each lane and logs the provisional rows.
struct ShiftMixCudaArgs {
  int rows = 0;   // T
  int width = 0;  // C
  int mixes = 0;  // n
  Lanes lanes;
  ShiftState shift;
  View<const float> x;          // [T, C]
  View<const float> ln_weight;  // [C]
  View<const float> ln_bias;    // [C]
  View<const float> mix;        // [n, C]
  View<float> h;                // [T, C] out: LN(x)
  View<float> mixed;            // [n, T, C] out: h + (previous h - h) mix
};
void ShiftMixCuda(const ShiftMixCudaArgs& args, const DeviceCuda& device);

// Makes the last accepted log entry of each slot its committed row. slots [n] distinct, accepted
// [S] by slot.
void ReplayShiftCuda(const ShiftState& shift, View<const int32_t> slots, const int32_t* accepted,
                     int width, const DeviceCuda& device);

}  // namespace tandem
