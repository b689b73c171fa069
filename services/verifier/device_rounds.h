#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ipc/channel.h"
#include "common/ipc/watchdog.h"
#include "kernels/backend.h"
#include "kernels/draft_exchange/draft_exchange.h"
#include "kernels/view.h"
#include "services/verifier/device_handoff.h"

namespace tandem {

// The verifier's queue in device mode: its words, ops and watchdog. Knows rounds, not attachments.
// Engine thread only.
class DeviceRounds final {
 public:
  // A round that the drafter has acknowledged.
  struct Expected {
    uint64_t step = 0;
    std::vector<ipc::LaneRecord> lanes = {};
    ipc::Clock::time_point deadline = {};  // of the wait for it
    std::function<bool()> stopped = {};    // it will not come
  };
  struct Result {
    bool waited = false;              // for an expected round; else no draft was taken
    bool released = false;            // the wait reached its deadline or was stopped
    std::vector<int32_t> taken = {};  // by lane of Take
    double round_seconds = 0;         // published to finished; 0: not measured
    double handoff_seconds = 0;       // both ways, without the drafter's work; 0: not measured
  };

  // RESOURCE_EXHAUSTED when memory is short. `backend`, which has words, must outlive this.
  static absl::StatusOr<std::unique_ptr<DeviceRounds>> Create(Backend* backend, int max_lanes,
                                                              int vocab);

  // A new attachment, `step` being the round before its first: empties its words and records and
  // waits for that.
  void Start(const ipc::BlockView& view, uint64_t step);
  // The next Take waits for this round; without it Take finds no drafts.
  void Expect(Expected expected) { expected_ = std::move(expected); }
  void ExpectNothing() { expected_ = Expected{}; }
  // The next Publish is this round's; pass_lanes[i] is the lane of the pass behind lanes[i].
  void Plan(uint64_t step, absl::Span<const ipc::LaneRecord> lanes,
            absl::Span<const int32_t> pass_lanes);

  void Take(absl::Span<const WantedDrafts> lanes, View<int32_t> tokens, View<int32_t> row_tokens);
  void Publish(View<const int32_t> emitted, View<const int32_t> tokens);
  Result Finish();

 private:
  DeviceRounds(Backend* backend, int vocab)
      : backend_(backend), vocab_(vocab), watchdog_(backend) {}
  void Measure(Result& result) const;

  Backend* const backend_;
  const int vocab_;
  ipc::BlockView view_;
  ipc::Watchdog watchdog_;
  Expected expected_;
  bool waiting_ = false;
  size_t wanted_ = 0;                // lanes of the last Take
  uint64_t plan_step_ = 0;           // 0: nothing to publish
  size_t planned_ = 0;               // lanes of it
  std::vector<int32_t> host_taken_;  // [B]
  uint64_t host_clock_[5] = {};

  // Backend memory.
  View<DraftTakeLane> take_lanes_;        // [B]
  View<DraftPublishLane> publish_lanes_;  // [B]
  View<int32_t> taken_;                   // [B]
  View<uint64_t> clock_;       // [5]: published, started, finished, taken; when the wait began
  View<RoundTimes> no_times_;  // [1]
};

}  // namespace tandem
