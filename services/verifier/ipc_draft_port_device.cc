#include <chrono>

#include "services/verifier/ipc_draft_port.h"

namespace tandem {

void IpcDraftPort::Expect() {
  expected_step_ = step_;
  expected_within_ = deadline_.Seconds(step_ - 1, step_);
  device_->Expect({.step = step_,
                   .lanes = lanes_,
                   .deadline = ipc::After(expected_within_),
                   .stopped = [this, epoch = channel_.view().epoch()] {
                     return attachment_->live_epoch() != epoch;
                   }});
}

void IpcDraftPort::Plan(absl::Span<const PublishedLane> lanes) {
  if (!WriteRound(lanes)) return;
  std::vector<int32_t> pass_lanes;
  for (const PublishedLane& lane : lanes) pass_lanes.push_back(lane.pass_lane);
  device_->Plan(step_, lanes_, pass_lanes);
  Send();
}

void IpcDraftPort::Take(absl::Span<const WantedDrafts> lanes, View<int32_t> tokens,
                        View<int32_t> row_tokens) {
  // What was expected of an attachment that is over lies in memory that another one may get.
  if (!Live()) device_->ExpectNothing();
  wanted_of_take_.clear();
  for (const WantedDrafts& lane : lanes) wanted_of_take_.push_back(lane.count);
  device_->Take(lanes, tokens, row_tokens);
}

void IpcDraftPort::Publish(View<const int32_t> emitted, View<const int32_t> tokens) {
  device_->Publish(emitted, tokens);
}

absl::Span<const int32_t> IpcDraftPort::Finish() {
  DeviceRounds::Result result = device_->Finish();
  taken_ = std::move(result.taken);
  int missing = 0;
  for (size_t i = 0; i < taken_.size(); ++i) missing += wanted_of_take_[i] - taken_[i];
  const Discarded why = result.released ? Discarded::kLate : Discarded::kStale;
  metrics_->discarded_drafts[static_cast<size_t>(why)]->Increment(missing);
  if (result.released && Live()) {
    // The drafter acknowledges the next round when it has finished this one.
    Released(expected_step_ + 1);
  } else if (result.waited) {
    releases_in_a_row_ = 0;
    // The stamps lie where the peer can write: what took longer would have been released.
    if (result.round_seconds > 0 && result.round_seconds <= expected_within_) {
      deadline_.Measured(expected_step_, result.round_seconds);
      metrics_->draft_seconds.Observe(result.round_seconds);
      metrics_->handoff_seconds.Observe(result.handoff_seconds);
    }
  }
  return taken_;
}

}  // namespace tandem
