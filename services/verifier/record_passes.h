#pragma once

#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "kernels/backend.h"
#include "services/verifier/schedule.h"
#include "services/verifier/step.h"

namespace tandem {

struct RecordedPasses {
  int count = 0;
  bool complete = false;
};

// Runs, on sequences of its own, every pass that decoding and verifying usually meet, so that a
// backend which records passes has recorded them before the first request: for any number of lanes
// none and all of the scheduled drafts, for up to four lanes also every number between. Stops after
// kMostRecorded passes or kRecordingTime. Needs all slots of the state free and leaves them so.
inline constexpr int kMostRecorded = 160;
RecordedPasses RecordPasses(const Backend& backend, const DraftSchedule& schedule,
                            const FeatureTap& tap, RecurrentState& state, Step& step);

}  // namespace tandem
