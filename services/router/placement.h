#pragma once

#include <cstdint>
#include <limits>

#include "absl/types/span.h"

namespace tandem {

inline constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

// What placement knows of a verifier.
struct WorkerStanding {
  bool usable = false;
  uint32_t slots = 0;
  uint32_t slots_used = 0;
  uint32_t queued = 0;
  uint32_t session_room = kUnlimited;  // sessions that it would still open
  // Submitted by this router since the verifier last told its load.
  uint32_t unreported = 0;
};

// Index of the usable verifier with the smallest share of its slots taken, queue and unreported
// requests included; the first of equal ones. -1 if none is usable.
int LeastLoaded(absl::Span<const WorkerStanding> workers);

}  // namespace tandem
