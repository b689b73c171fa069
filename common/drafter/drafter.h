#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/draft_records.h"
#include "kernels/lanes.h"
#include "kernels/view.h"

namespace tandem {

// What a sequence brings to one draft round: the base positions that became certain since its last
// round (their token was consumed as accepted text and the next token is known), in order.
struct DraftLane {
  int32_t slot = 0;
  uint32_t generation = 0;  // of the slot; a change means another sequence: start cold
  int32_t count = 0;        // certain positions, >= 1
  int32_t wanted =
      0;  // drafts wanted after the last certain position, 0 .. kMaxDrafts (0: feed only)
  int64_t position =
      0;  // base position of the first of them; if it does not continue the last round: start cold
  const float* features = nullptr;       // [count, 3C]: h, m1, m2 of each position
  const int32_t* next_tokens = nullptr;  // [count]: the token at position + 1 + i
};

struct Drafts {
  int32_t count = 0;  // 0 .. wanted
  int32_t tokens[kMaxDrafts] = {};
};

// A lane of a round whose pass may not have run yet: `drafts` rows follow its certain ones, and
// only the device knows how many of them became certain.
struct DeviceDraftLane {
  DraftLane known;          // features are [count + drafts, 3C]
  int32_t drafts = 0;       // 0 .. kMaxDrafts
  bool chooses = true;      // the last of known.next_tokens is unknown too: the record has it
  int32_t record = 0;       // of the round, for the slot with this
  uint32_t generation = 0;  // of the verifier's
};

// Where a round lies in the drafter's backend memory, which the verifier shares.
struct DeviceRound {
  uint64_t epoch = 0;
  uint64_t step = 0;
  View<const CertainRecord> certain;  // [n]
  View<DraftRecord> answers;          // [n]
  RoundTimes* times = nullptr;
};

// Guesses the next tokens of sequences; never decides what is emitted. Slots are numbered as the
// verifier's. One thread.
class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual int max_drafts() const = 0;
  virtual int slots() const = 0;

  // One round. results[i] answers lanes[i]; slots are distinct. A lane that cannot be served gets
  // count 0.
  virtual void Draft(absl::Span<const DraftLane> lanes, absl::Span<Drafts> results) = 0;

  // The same for a round whose tokens stay on the device: enqueues the work and its answers.
  // Between it and Finish the caller may enqueue more, but bring no other round.
  virtual void Enqueue(const DeviceRound& round, absl::Span<const DeviceDraftLane> lanes) = 0;
  // Waits for the backend. fed[i]: positions of lanes[i] that became certain, 0 where the lane was
  // refused or its record is of something else.
  virtual void Finish(absl::Span<int32_t> fed) = 0;
};

}  // namespace tandem
