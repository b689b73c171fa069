#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/view.h"

namespace tandem {

struct PublishedLane;

// What stands for a draft that only the device knows.
inline constexpr int32_t kDraftOnDevice = -1;

// Rows of a pass that wait for drafts of the round before it.
struct WantedDrafts {
  int32_t slot = 0;
  int32_t count = 0;
  int32_t first_row = 0;    // among the pass's rows
  int32_t first_logit = 0;  // among the rows with logits
};

// The hand-off around one pass where neither drafts nor accepted counts visit the host on their
// way. In this order, between DraftPort::FeatureRows and the next Collect: Plan, Take, Publish,
// Backend::Wait, Finish. Used by the engine thread only.
class DeviceHandoff {
 public:
  virtual ~DeviceHandoff() = default;

  // Whether rounds are planned before their pass now; changes with FeatureRows only.
  virtual bool live() = 0;
  // Tells the drafter of the round that the pass will publish.
  virtual void Plan(absl::Span<const PublishedLane> lanes) = 0;
  // Enqueues, once the pass's tokens lie in backend memory, the wait for the drafts of the round
  // that was collected and their way into the pass. No drafts: the rows are run and never accepted.
  virtual void Take(absl::Span<const WantedDrafts> lanes, View<int32_t> tokens,  // [T]
                    View<int32_t> row_tokens) = 0;                               // [R]
  // Enqueues what the pass made certain, in the form of AcceptArgs.
  virtual void Publish(View<const int32_t> emitted, View<const int32_t> tokens) = 0;
  // Drafts that came for each lane of Take.
  virtual absl::Span<const int32_t> Finish() = 0;
};

}  // namespace tandem
