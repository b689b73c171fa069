#include "services/verifier/ipc_draft_port.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/check.h"

namespace tandem {
namespace {}  // namespace

IpcDraftPort::IpcDraftPort(const Options& options, DraftAttachment* attachment,
                           VerifierMetrics* metrics, std::unique_ptr<DeviceRounds> device)
    : options_(options),
      attachment_(attachment),
      metrics_(metrics),
      deadline_(options.deadline),
      device_(std::move(device)) {}

IpcDraftPort::~IpcDraftPort() {
  if (held_) attachment_->Release();
}

bool IpcDraftPort::Attached() { return attachment_->live_epoch() != 0; }

bool IpcDraftPort::Live() const {
  return held_ && attachment_->live_epoch() == channel_.view().epoch();
}

void IpcDraftPort::Adopt() {
  if (Live()) return;
  if (held_) attachment_->Release();
  const std::optional<DraftAttachment::Attached> attached = attachment_->Acquire();
  held_ = attached.has_value();
  on_device_ = held_ && attached->device;
  outstanding_ = false;
  if (!held_) return;
  channel_ = ipc::VerifierChannel(attached->view);
  deadline_.Reset();
  step_ = options_.first_step - 1;
  if (on_device_) device_->Start(attached->view, step_);
  released_step_ = 0;
  releases_in_a_row_ = 0;
}

float* IpcDraftPort::FeatureRows() {
  Adopt();
  return held_ ? channel_.view().features(step_ + 1) : nullptr;
}

// Writes the round and its lanes; false where there is nobody to read it. The features of this
// round go to the attachment that was live when the pass began.
bool IpcDraftPort::WriteRound(absl::Span<const PublishedLane> lanes) {
  outstanding_ = false;
  if (lanes.empty() || !Live()) return false;
  const ipc::LayoutSizes& sizes = channel_.view().layout().sizes;
  alone_ = channel_.drafted() == step_;
  ++step_;
  lanes_.clear();
  wanted_ = 0;
  rows_ = 0;
  channel_.Begin(step_);
  for (const PublishedLane& lane : lanes) {
    const int rows = lane.count + lane.drafts;
    CHECK(lane.count >= 1 && lane.first_row >= 0 && lane.first_row + rows <= sizes.max_rows)
        << "rows " << lane.first_row << " + " << rows << " of a pass of " << sizes.max_rows;
    lanes_.push_back({.position = lane.position,
                      .slot = lane.slot,
                      .generation = lane.generation,
                      .first_row = lane.first_row,
                      .count = lane.count,
                      .wanted = std::min(lane.wanted, options_.max_drafts),
                      .flags = lane.chooses ? ipc::kLaneChooses : 0u,
                      .drafts = lane.drafts});
    std::vector<int32_t> tokens(lane.next_tokens, lane.next_tokens + lane.count - lane.chooses);
    tokens.resize(static_cast<size_t>(lane.count));
    channel_.WriteTokens(step_, lane.first_row, tokens);
    wanted_ += lanes_.back().wanted;
    rows_ += rows;
  }
  channel_.WriteLanes(step_, lanes_);
  return true;
}

void IpcDraftPort::Send() {
  deadline_.Published(step_, rows_, static_cast<int>(lanes_.size()));
  published_at_ = ipc::Clock::now();
  channel_.Publish(step_, static_cast<int>(lanes_.size()));
  outstanding_ = true;
}

void IpcDraftPort::Publish(absl::Span<const PublishedLane> lanes) {
  if (WriteRound(lanes)) Send();
}

ipc::WaitResult IpcDraftPort::Wait() {
  const uint64_t drafted = channel_.drafted();
  if (drafted >= step_) return ipc::WaitResult::kReached;
  if (drafted < released_step_) {
    const double waiting = ipc::Seconds(ipc::Clock::now() - first_release_);
    if (waiting > options_.release_window_seconds) attachment_->Condemn(channel_.view().epoch());
    return ipc::WaitResult::kDeadline;
  }
  const ipc::WaitResult result = channel_.WaitDrafted(
      step_, ipc::After(deadline_.Seconds(drafted, step_)), [this] { return !Live(); });
  if (result == ipc::WaitResult::kDeadline) Released(step_);
  return result;
}

void IpcDraftPort::Released(uint64_t awaited) {
  metrics_->watchdog_releases.Increment();
  const ipc::Clock::time_point now = ipc::Clock::now();
  const bool again = releases_in_a_row_ > 0 &&
                     ipc::Seconds(now - first_release_) <= options_.release_window_seconds;
  releases_in_a_row_ = again ? releases_in_a_row_ + 1 : 1;
  if (!again) first_release_ = now;
  released_step_ = awaited;
  if (releases_in_a_row_ >= 2) attachment_->Condemn(channel_.view().epoch());
}

void IpcDraftPort::Measure(const ipc::DraftRecord& echo, ipc::Clock::time_point waited_since) {
  const ipc::Clock::time_point now = ipc::Clock::now();
  const double seconds = ipc::Seconds(now - published_at_);
  const double work = echo.draft_micros * 1e-6;
  // Without a wait the time would be that of the engine.
  const bool waited = ipc::Seconds(now - waited_since) > 5e-6;
  if (alone_) deadline_.Measured(step_, seconds);
  if (alone_ && waited && work <= seconds) metrics_->handoff_seconds.Observe(seconds - work);
}

DraftOutcome IpcDraftPort::Take(absl::Span<Drafts> results) {
  // Read once: what is checked here is what gets verified, whatever the peer writes meanwhile.
  drafts_.resize(lanes_.size());
  channel_.TakeDrafts(step_, absl::MakeSpan(drafts_));
  bool stale = false;
  bool invalid = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const ipc::DraftRecord& record = drafts_[i];
    if (record.epoch != channel_.view().epoch() || record.step != step_ ||
        record.slot != lanes_[i].slot || record.generation != lanes_[i].generation) {
      stale = true;
      metrics_->discarded_drafts[static_cast<size_t>(Discarded::kStale)]->Increment(
          lanes_[i].wanted);
      continue;
    }
    const int count = std::clamp(record.count, 0, lanes_[i].wanted);
    Drafts& result = results[i];
    while (result.count < count && record.tokens[result.count] >= 0 &&
           record.tokens[result.count] < options_.vocab) {
      result.tokens[result.count] = record.tokens[result.count];
      ++result.count;
    }
    if (result.count == count && record.count == count) continue;
    invalid = true;
    metrics_->discarded_drafts[static_cast<size_t>(Discarded::kInvalid)]->Increment(
        std::max(1, count - result.count));
  }
  return stale || invalid ? DraftOutcome::kInvalid : DraftOutcome::kDrafted;
}

DraftOutcome IpcDraftPort::Collect(absl::Span<Drafts> results) {
  std::fill(results.begin(), results.end(), Drafts{});
  if (!outstanding_ || !Live()) {
    outstanding_ = false;
    return DraftOutcome::kNoDrafter;
  }
  outstanding_ = false;
  CHECK_EQ(results.size(), lanes_.size());
  if (channel_.drafted() > step_) {
    // No drafter of ours answers a round that was not published.
    attachment_->Condemn(channel_.view().epoch());
    return DraftOutcome::kInvalid;
  }
  if (wanted_ == 0) return DraftOutcome::kDrafted;
  const ipc::Clock::time_point start = ipc::Clock::now();
  const ipc::WaitResult waited = Wait();
  if (waited == ipc::WaitResult::kStopped) return DraftOutcome::kNoDrafter;
  if (waited == ipc::WaitResult::kDeadline) {
    metrics_->discarded_drafts[static_cast<size_t>(Discarded::kLate)]->Increment(wanted_);
    return DraftOutcome::kLate;
  }
  if (on_device_) {
    for (size_t i = 0; i < lanes_.size(); ++i) results[i].count = lanes_[i].wanted;
    Expect();
    return DraftOutcome::kOnDevice;
  }
  releases_in_a_row_ = 0;
  const DraftOutcome outcome = Take(results);
  if (outcome == DraftOutcome::kDrafted) Measure(drafts_[0], start);
  return outcome;
}

}  // namespace tandem
