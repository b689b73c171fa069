#pragma once

#include <cstdint>

#include "kernels/shift.h"
#include "kernels/time_mix_core/time_mix_core.h"
#include "kernels/view.h"

namespace tandem {

class ThreadPool;

// Brings the committed state of one layer of some slots to where their next pass would start:
// replays the first accepted[slot] log entries (clamped to 0 .. kMaxDrafts) of both shifts and of
// S. Leaves `accepted` as it is.
struct ReplayArgs {
  int width = 0;                      // C
  View<const int32_t> slots;          // [n], distinct
  const int32_t* accepted = nullptr;  // [S] by slot
  ShiftState att_shift;
  ShiftState ffn_shift;
  WkvState wkv;
};

void ReplayCpu(const ReplayArgs& args, ThreadPool& pool);

}  // namespace tandem
