#pragma once

#include "kernels/shift.h"

namespace tandem {

class ThreadPool;

void ShiftMixCpu(const ShiftMix& args, ThreadPool& pool);

// Makes the last accepted log entry of a slot its committed row.
void ReplayShift(const ShiftState& shift, int slot, int accepted, int width);

}  // namespace tandem
