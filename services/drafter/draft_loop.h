#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/drafter/drafter.h"
#include "common/ipc/channel.h"
#include "common/metrics/metrics.h"

namespace tandem {

// The drafter's side of the rounds of one attachment: takes every round in order, feeds the
// drafter, answers the newest. Rounds that were missed but are still readable are fed without
// drafting; a lane whose positions were lost, or whose numbers are impossible, starts cold. One
// thread.
class DraftLoop final {
 public:
  // All must outlive the loop.
  DraftLoop(const ipc::DrafterChannel& channel, Drafter* drafter, DrafterMetrics* metrics);

  // Answers the verifier's measurement of the hand-off until `ready` or `stopped`.
  void AnswerProbe(absl::FunctionRef<bool()> ready, absl::FunctionRef<bool()> stopped);
  // Serves rounds until `stopped`, which is looked at between rounds and at least every 100 ms.
  // Another Run goes on with the next round.
  void Run(absl::FunctionRef<bool()> stopped);

 private:
  struct SlotState {
    bool known = false;
    uint32_t generation = 0;        // the verifier's
    uint32_t local_generation = 0;  // the drafter's: also changes where a slot must start cold
    uint64_t last_step = 0;
  };

  void Serve(uint64_t step, bool newest);
  // Fills lanes_ and answered_ from the round; drafts are wanted only for the newest.
  void TakeLanes(uint64_t step, bool newest);
  uint32_t LocalGeneration(const ipc::LaneRecord& lane);
  void Forget(int32_t slot);
  void Answer(uint64_t step, double seconds);

  ipc::DrafterChannel channel_;
  Drafter* drafter_;
  DrafterMetrics* metrics_;
  uint64_t next_ = 1;  // round to serve
  std::vector<SlotState> slots_;
  ipc::Round round_;
  std::vector<DraftLane> lanes_;  // the valid ones
  std::vector<size_t> answered_;  // round lane of each of them
  std::vector<Drafts> results_;   // of each of them
  std::vector<ipc::DraftRecord> records_;
};

}  // namespace tandem
