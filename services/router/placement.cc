#include "services/router/placement.h"

#include <algorithm>

namespace tandem {
namespace {

uint64_t Taken(const WorkerStanding& worker) {
  return uint64_t{worker.slots_used} + worker.queued + worker.unreported;
}

uint64_t Slots(const WorkerStanding& worker) { return std::max<uint32_t>(worker.slots, 1); }

}  // namespace

int LeastLoaded(absl::Span<const WorkerStanding> workers) {
  int best = -1;
  for (int i = 0; i < static_cast<int>(workers.size()); ++i) {
    if (!workers[i].usable) continue;
    // a/b < c/d without division.
    if (best < 0 ||
        Taken(workers[i]) * Slots(workers[best]) < Taken(workers[best]) * Slots(workers[i])) {
      best = i;
    }
  }
  return best;
}

}  // namespace tandem
