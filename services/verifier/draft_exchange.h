#pragma once

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/model/rwkv7.h"
#include "services/verifier/draft_port.h"
#include "services/verifier/scheduler.h"

namespace tandem {

// What a pass did to one reply, for the drafter to follow.
struct FedLane {
  Reply* reply = nullptr;
  int first_row = 0;     // of its feature rows
  int64_t consumed = 0;  // tokens that its state had consumed before the pass
  bool ended = false;
};

// The engine's bookkeeping around a DraftPort: which certain positions go out, whose drafts come
// back. Engine thread only.
class DraftExchange final {
 public:
  // All must outlive the exchange.
  DraftExchange(DraftPort* port, VerifierMetrics* metrics, const Scheduler* scheduler);

  // Gives the outstanding round's drafts to their replies.
  void Collect();
  // Why a lane without drafts has none, after Collect.
  Undrafted missing() const { return missing_; }
  // Where the next pass leaves features; rows are null when no drafter wants them.
  FeatureTap Tap();
  // Before the pass that writes to Tap: where drafts stay on the device, sends the round that the
  // pass will publish.
  void Plan(const StepPlan& plan);
  // After the pass that wrote to Tap and before its tokens go anywhere: sends what became certain.
  void Publish(const std::vector<FedLane>& fed);
  // The reply is over; drafts that come for it are stale.
  void Forget(const Reply* reply);

 private:
  // A drafter's attention spans 512 positions and its shift one more; older ones change no draft.
  static constexpr int64_t kUsefulPositions = 513;

  struct Sent {
    Reply* reply = nullptr;
    int wanted = 0;
  };
  bool AddLane(const FedLane& fed, int decoding);
  bool AddPlanned(const PlannedLane& planned, int first_row, int decoding);

  DraftPort* const port_;
  VerifierMetrics* const metrics_;
  const Scheduler* const scheduler_;
  float* rows_ = nullptr;
  bool planned_ = false;    // the last pass was sent by Plan
  bool refused_ = false;    // attached, but no room for the last pass's features
  std::vector<Sent> sent_;  // the outstanding round
  std::vector<PublishedLane> lanes_;
  std::vector<Drafts> results_;
  absl::Time published_at_;
  Undrafted missing_ = Undrafted::kNoDrafter;
};

}  // namespace tandem
