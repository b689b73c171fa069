#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/drafter/drafter.h"
#include "common/ipc/channel.h"
#include "common/ipc/watchdog.h"
#include "common/metrics/metrics.h"
#include "kernels/backend.h"

namespace tandem {

// The drafter's side of the rounds of one attachment: takes every round in order, feeds the
// drafter, answers the newest. Rounds that were missed but are still readable are fed without
// drafting; a lane whose positions were lost, or whose numbers are impossible, starts cold. One
// thread.
//
// In device mode a round is planned before its pass has run: it is acknowledged, its work enqueued
// behind the verifier's word, and the next one taken when it has finished.
class DraftLoop final {
 public:
  // All must outlive the loop. `backend`, the drafter's, is needed for device mode only.
  DraftLoop(const ipc::DrafterChannel& channel, Drafter* drafter, DrafterMetrics* metrics,
            Backend* backend = nullptr);

  // Answers the verifier's measurement of the hand-off, `device`: also that of device mode, until
  // `ready` or `stopped`.
  void AnswerProbe(bool device, absl::FunctionRef<bool()> ready, absl::FunctionRef<bool()> stopped);
  // Serves rounds until `stopped`, which is looked at between rounds and at least every 100 ms.
  // Another Run goes on with the next round.
  void Run(absl::FunctionRef<bool()> stopped);
  // In device mode. `stopped` is also looked at on another thread, while the device waits.
  void RunOnDevice(absl::FunctionRef<bool()> stopped);

 private:
  struct SlotState {
    bool known = false;
    uint32_t generation = 0;        // the verifier's
    uint32_t local_generation = 0;  // the drafter's: also changes where a slot must start cold
    uint64_t last_step = 0;
  };

  void AnswerDeviceProbe(absl::FunctionRef<bool()> stopped);
  // Calls `serve` with every round, until `stopped`.
  void TakeRounds(absl::FunctionRef<void(uint64_t step, bool newest)> serve,
                  absl::FunctionRef<bool()> stopped);
  void Serve(uint64_t step, bool newest);
  void ServeOnDevice(uint64_t step, bool newest, absl::FunctionRef<bool()> stopped);
  void EnqueueRound(uint64_t step);
  // Fills lanes_ and answered_ from the round; drafts are wanted only for the newest.
  void TakeLanes(uint64_t step, bool newest);
  uint32_t LocalGeneration(const ipc::LaneRecord& lane);
  void Forget(int32_t slot);
  void Answer(uint64_t step, double seconds);

  ipc::DrafterChannel channel_;
  Drafter* drafter_;
  DrafterMetrics* metrics_;
  Backend* backend_;
  std::optional<ipc::Watchdog> watchdog_;  // of the backend, in device mode
  uint64_t next_ = 1;                      // round to serve
  std::vector<SlotState> slots_;
  ipc::Round round_;
  std::vector<DraftLane> lanes_;  // the valid ones
  std::vector<size_t> answered_;  // round lane of each of them
  std::vector<Drafts> results_;   // of each of them
  std::vector<ipc::DraftRecord> records_;
  std::vector<DeviceDraftLane> device_lanes_;  // as lanes_
  std::vector<int32_t> fed_;                   // of each of them
};

}  // namespace tandem
