#pragma once

#include <cstdint>

#include "kernels/lanes.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {

// Log entries that a pass replays for a slot, whatever the counter says. `accepted` [S].
__device__ inline int ClampedAccepted(const int32_t* accepted, int slot) {
  return min(max(accepted[slot], 0), kMaxDrafts);
}

}  // namespace tandem
