#include "services/verifier/record_passes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/log.h"

namespace tandem {
namespace {

constexpr absl::Duration kRecordingTime = absl::Seconds(20);
constexpr int kLanesInFull = 4;

// Drafts of all lanes together that passes of `lanes` lanes are recorded with.
std::vector<int> DraftsOf(const DraftSchedule& schedule, int lanes) {
  const int most = lanes * schedule.DraftsFor(lanes);
  std::vector<int> drafts;
  for (int count = 0; count <= most; ++count) {
    if (count == 0 || count == most || lanes <= kLanesInFull) drafts.push_back(count);
  }
  return drafts;
}

// One certain token per slot, and `drafts` shared out among them.
std::vector<StepLane> LanesOf(const std::vector<Slot>& slots, int drafts, int most,
                              const Sampling& sampling) {
  static constexpr int32_t kTokens[kMaxDrafts] = {};
  std::vector<StepLane> lanes;
  for (const Slot& slot : slots) {
    const int own = std::min(drafts, most);
    lanes.push_back({.slot = &slot,
                     .certain = absl::MakeConstSpan(kTokens, 1),
                     .drafts = absl::MakeConstSpan(kTokens, static_cast<size_t>(own)),
                     .choose = true,
                     .sampling = &sampling});
    drafts -= own;
  }
  return lanes;
}

}  // namespace

RecordedPasses RecordPasses(const Backend& backend, const DraftSchedule& schedule,
                            const FeatureTap& tap, RecurrentState& state, Step& step) {
  if (!backend.records()) return {};
  const absl::Time start = absl::Now();
  const Sampling sampling;
  RecordedPasses recorded;
  std::vector<Slot> slots;
  while (state.free_slots() > 0) {
    absl::StatusOr<Slot> slot = state.Acquire();
    CHECK_OK(slot.status());
    slots.push_back(*std::move(slot));
    const int lanes = static_cast<int>(slots.size());
    for (const int drafts : DraftsOf(schedule, lanes)) {
      if (recorded.count == kMostRecorded || absl::Now() - start > kRecordingTime) {
        LOG(WARNING) << "recorded " << recorded.count << " kinds of passes in "
                     << absl::FormatDuration(absl::Now() - start) << ", up to " << lanes
                     << " sequences; others are recorded when they are first met";
        return recorded;
      }
      step.Run(LanesOf(slots, drafts, schedule.DraftsFor(lanes), sampling), tap);
      ++recorded.count;
    }
    if (lanes % 16 == 0) LOG(INFO) << "recorded the passes of up to " << lanes << " sequences";
  }
  recorded.complete = true;
  LOG(INFO) << "recorded " << recorded.count << " kinds of passes in "
            << absl::FormatDuration(absl::Now() - start);
  return recorded;
}

}  // namespace tandem
