#include "services/verifier/device_rounds.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace tandem {
namespace {

template <class T>
bool Allocate(Backend* backend, size_t count, View<T>& view) {
  view = {static_cast<T*>(backend->Allocate(count * sizeof(T))), count};
  return view.data != nullptr;
}

uint32_t Low(uint64_t step) { return static_cast<uint32_t>(step); }

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceRounds>> DeviceRounds::Create(Backend* backend, int max_lanes,
                                                                   int vocab) {
  CHECK(backend->has_words());
  std::unique_ptr<DeviceRounds> rounds(new DeviceRounds(backend, vocab));
  const size_t lanes = static_cast<size_t>(max_lanes);
  rounds->host_taken_.resize(lanes);
  if (Allocate(backend, lanes, rounds->take_lanes_) &&
      Allocate(backend, lanes, rounds->publish_lanes_) &&
      Allocate(backend, lanes, rounds->taken_) && Allocate(backend, 5, rounds->clock_) &&
      Allocate(backend, 1, rounds->no_times_)) {
    return rounds;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for the hand-off of ", max_lanes, " lanes; lower --max-sequences"));
}

void DeviceRounds::Start(const ipc::BlockView& view, uint64_t step) {
  view_ = view;
  ExpectNothing();
  plan_step_ = 0;
  const size_t lanes = static_cast<size_t>(view.layout().sizes.max_lanes);
  backend_->WriteWord(view.device_word(ipc::kDeviceVerified), Low(step));
  backend_->WriteWord(view.device_word(ipc::kDeviceDrafted), Low(step));
  for (uint64_t copy = 0; copy < ipc::kRing; ++copy) {
    backend_->Zero(view.certain(copy), lanes * sizeof(CertainRecord));
    backend_->Zero(view.device_drafts(copy), lanes * sizeof(DraftRecord));
    backend_->Zero(view.times(copy), sizeof(RoundTimes));
  }
  backend_->Wait();
}

void DeviceRounds::Plan(uint64_t step, absl::Span<const ipc::LaneRecord> lanes,
                        absl::Span<const int32_t> pass_lanes) {
  std::vector<DraftPublishLane> publish;
  for (size_t i = 0; i < lanes.size(); ++i) {
    publish.push_back(
        {.pass_lane = pass_lanes[i], .slot = lanes[i].slot, .generation = lanes[i].generation});
  }
  plan_step_ = step;
  planned_ = publish.size();
  backend_->CopyIn(publish_lanes_.data, publish.data(), planned_ * sizeof(DraftPublishLane));
}

void DeviceRounds::Take(absl::Span<const WantedDrafts> lanes, View<int32_t> tokens,
                        View<int32_t> row_tokens) {
  wanted_ = lanes.size();
  if (lanes.empty()) return;
  const uint64_t step = expected_.step;
  std::vector<DraftTakeLane> take;
  for (const WantedDrafts& lane : lanes) {
    const auto found =
        std::find_if(expected_.lanes.begin(), expected_.lanes.end(),
                     [&](const ipc::LaneRecord& record) { return record.slot == lane.slot; });
    // Not found: the lane did not run in the pass before; no record has its slot.
    const bool due = found != expected_.lanes.end();
    take.push_back({.slot = due ? lane.slot : -1,
                    .count = lane.count,
                    .first_row = lane.first_row,
                    .first_logit = lane.first_logit});
    if (!due) continue;
    take.back().record = static_cast<int32_t>(found - expected_.lanes.begin());
    take.back().generation = found->generation;
  }
  backend_->CopyIn(take_lanes_.data, take.data(), take.size() * sizeof(DraftTakeLane));
  waiting_ = step != 0;
  if (waiting_) {
    backend_->Stamp(clock_.data + 4);
    watchdog_.Arm(expected_.deadline, expected_.stopped);
    backend_->WaitWord(view_.device_word(ipc::kDeviceDrafted), Low(step));
  }
  backend_->DraftTake(
      {.epoch = view_.epoch(),
       .step = step,
       .vocab = vocab_,
       .records = {waiting_ ? view_.device_drafts(step) : nullptr, expected_.lanes.size()},
       .times = waiting_ ? view_.times(step) : no_times_.data,
       .lanes = take_lanes_.Sub(0, take.size()),
       .tokens = tokens,
       .row_tokens = row_tokens,
       .taken = taken_,
       .clock = clock_});
  backend_->CopyOut(host_taken_.data(), taken_.data, take.size() * sizeof(int32_t));
  backend_->CopyOut(host_clock_, clock_.data, sizeof(host_clock_));
}

void DeviceRounds::Publish(View<const int32_t> emitted, View<const int32_t> tokens) {
  if (plan_step_ == 0) return;
  backend_->DraftPublish({.epoch = view_.epoch(),
                          .step = plan_step_,
                          .lanes = publish_lanes_.Sub(0, planned_),
                          .emitted = emitted,
                          .tokens = tokens,
                          .records = {view_.certain(plan_step_), planned_},
                          .times = view_.times(plan_step_)});
  backend_->WriteWord(view_.device_word(ipc::kDeviceVerified), Low(plan_step_));
  plan_step_ = 0;
}

void DeviceRounds::Measure(Result& result) const {
  const auto [published, started, finished, taken, arrived] = host_clock_;
  // Written by the peer: only what is in order is a measurement.
  if (published == 0 || started < published || finished < started || taken < finished) return;
  result.round_seconds = static_cast<double>(finished - published) * 1e-9;
  // The part of the way back that the verifier was there for.
  const uint64_t back = taken - std::max(finished, arrived);
  result.handoff_seconds = static_cast<double>(started - published + back) * 1e-9;
}

DeviceRounds::Result DeviceRounds::Finish() {
  Result result{.waited = waiting_};
  result.taken.assign(host_taken_.begin(), host_taken_.begin() + static_cast<int64_t>(wanted_));
  if (waiting_) {
    result.released = watchdog_.Disarm();
    if (!result.released) Measure(result);
  }
  waiting_ = false;
  wanted_ = 0;
  ExpectNothing();
  return result;
}

}  // namespace tandem
