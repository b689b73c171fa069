#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/drafter/drafter.h"
#include "services/verifier/device_handoff.h"

namespace tandem {

// One lane of a published round; as DraftLane, its features lying in rows first_row .. first_row +
// count - 1 of the feature rows that the pass wrote. The last three are for DeviceHandoff::Plan,
// before the pass: its lane, how many rows of drafts follow the certain ones, and whether it
// chooses behind them, so that the last of next_tokens is not known.
struct PublishedLane {
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t first_row = 0;
  int32_t count = 0;
  int32_t wanted = 0;
  int64_t position = 0;
  const int32_t* next_tokens = nullptr;  // [count], or [count - 1] where the pass chooses
  int32_t pass_lane = 0;
  int32_t drafts = 0;
  bool chooses = false;
};

// kOnDevice: the counts are known, the drafts come with DeviceHandoff::Take.
enum class DraftOutcome { kDrafted, kOnDevice, kNoDrafter, kLate, kInvalid };

// The engine's side of the hand-off to a drafter, wherever it runs. Nothing here can fail or block
// for long: a dead, late or garbage drafter shows as zero drafts. Used by the engine thread only.
class DraftPort {
 public:
  virtual ~DraftPort() = default;

  // True while a drafter can answer the next round.
  virtual bool Attached() = 0;
  // Layers tapped for m1 and m2, and the most drafts per round; constant while serving.
  virtual const int* taps() const = 0;
  virtual int max_drafts() const = 0;

  // Where the next pass writes its feature rows, [max_rows, 3C]; changes after every Publish. Null:
  // not wanted now.
  virtual float* FeatureRows() = 0;

  // Hands a round to the drafter and returns at once; the pass that wrote the feature rows has
  // finished (Backend::Wait). At most one round is outstanding: Collect
  // comes before the next Publish.
  virtual void Publish(absl::Span<const PublishedLane> lanes) = 0;

  // Waits, up to the deadline of a wait, for the outstanding round; results[i] answers the
  // published lanes[i]. Every draft is a token id below V, every count at most `wanted`. No round
  // outstanding: kNoDrafter, counts 0.
  virtual DraftOutcome Collect(absl::Span<Drafts> results) = 0;

  // For every pass, where drafts may stay on the device; null where they never do.
  virtual DeviceHandoff* device() { return nullptr; }
};

}  // namespace tandem
