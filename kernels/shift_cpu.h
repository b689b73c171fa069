#pragma once

#include "kernels/lanes.h"
#include "kernels/shift.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// What both mixing ops do before their projections: layer norm, token shift and n mixes with the
// previous row.
struct ShiftMix {
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

// Replays, mixes, commits the last certain row of each lane and logs the provisional rows.
void ShiftMixCpu(const ShiftMix& args, ThreadPool& pool);

// Makes the last accepted log entry of a slot its committed row.
void ReplayShift(const ShiftState& shift, int slot, int accepted, int width);

// The rows of the log that a pass may replay, whatever the counter says.
int ClampAccepted(int accepted);

}  // namespace tandem
