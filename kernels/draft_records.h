#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/lanes.h"

namespace tandem {

// What two processes tell each other about a lane of a round in shared memory. Plain data: either
// side reads it as bytes that a broken peer may have written.

// From the verifier's device: what became certain behind the lane's certain rows. The echo says
// what it belongs to.
struct CertainRecord {
  uint64_t epoch = 0;
  uint64_t step = 0;
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t emitted = 0;                  // accepted drafts + 1, or 0: the lane chose nothing
  int32_t tokens[kMaxDrafts + 1] = {};  // [emitted]: accepted drafts, then the chosen one
};

// The drafter's answer to a lane of the round, with the echo of what it answers.
struct DraftRecord {
  uint64_t epoch = 0;
  uint64_t step = 0;
  uint32_t generation = 0;
  int32_t slot = 0;
  int32_t count = 0;
  uint32_t draft_micros = 0;  // time that the round took the drafter; for measurements only
  int32_t tokens[kMaxDrafts] = {};
};

// When a round went from hand to hand, in nanoseconds of the device's clock; for measurements only.
struct RoundTimes {
  uint64_t published = 0;  // by the verifier
  uint64_t started = 0;    // by the drafter
  uint64_t finished = 0;   // by the drafter
  uint64_t unused[5] = {};
};

static_assert(sizeof(CertainRecord) == 64 && std::is_trivially_copyable_v<CertainRecord>);
static_assert(sizeof(DraftRecord) == 64 && std::is_trivially_copyable_v<DraftRecord>);
static_assert(sizeof(RoundTimes) == 64 && std::is_trivially_copyable_v<RoundTimes>);

}  // namespace tandem
