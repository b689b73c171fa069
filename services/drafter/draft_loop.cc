#include "services/drafter/draft_loop.h"

#include <algorithm>
#include <chrono>

namespace tandem {
namespace {

constexpr auto kWaitSlice = std::chrono::seconds(1);
// READY comes on another thread while this one waits for a next probe that does not come; the
// verifier's first rounds would run into their deadline if this one slept on.
constexpr auto kProbeSlice = std::chrono::milliseconds(2);

double Since(ipc::Clock::time_point start) { return ipc::Seconds(ipc::Clock::now() - start); }

// The first round that cannot be in the middle of being overwritten.
uint64_t OldestReadable(uint64_t verified) {
  return verified < ipc::kRing ? 1 : verified + 2 - ipc::kRing;
}

}  // namespace

DraftLoop::DraftLoop(const ipc::DrafterChannel& channel, Drafter* drafter, DrafterMetrics* metrics,
                     Backend* backend)
    : channel_(channel),
      drafter_(drafter),
      metrics_(metrics),
      backend_(backend),
      slots_(static_cast<size_t>(channel.view().layout().sizes.slots)) {}

void DraftLoop::AnswerProbe(bool device, absl::FunctionRef<bool()> ready,
                            absl::FunctionRef<bool()> stopped) {
  const auto over = [&ready, &stopped] { return ready() || stopped(); };
  for (uint64_t i = 1; !over(); ++i) {
    while (channel_.Pong(i, ipc::Clock::now() + kProbeSlice, over) == ipc::WaitResult::kDeadline) {
    }
    if (device && i == ipc::kProbeRounds) AnswerDeviceProbe(over);
  }
}

void DraftLoop::AnswerDeviceProbe(absl::FunctionRef<bool()> stopped) {
  if (!watchdog_) watchdog_.emplace(backend_);
  const ipc::BlockView& view = channel_.view();
  watchdog_->Arm(ipc::Clock::time_point::max(), [stopped] { return stopped(); });
  for (uint32_t i = 1; i <= ipc::kProbeRounds && !stopped(); ++i) {
    backend_->WaitWord(view.device_word(ipc::kDevicePing), i);
    backend_->WriteWord(view.device_word(ipc::kDevicePong), i);
  }
  backend_->Wait();
  watchdog_->Disarm();
}

void DraftLoop::Run(absl::FunctionRef<bool()> stopped) {
  TakeRounds([this](uint64_t step, bool newest) { Serve(step, newest); }, stopped);
}

void DraftLoop::RunOnDevice(absl::FunctionRef<bool()> stopped) {
  if (!watchdog_) watchdog_.emplace(backend_);
  TakeRounds([&](uint64_t step, bool newest) { ServeOnDevice(step, newest, stopped); }, stopped);
}

void DraftLoop::TakeRounds(absl::FunctionRef<void(uint64_t step, bool newest)> serve,
                           absl::FunctionRef<bool()> stopped) {
  while (!stopped()) {
    const ipc::Clock::time_point start = ipc::Clock::now();
    if (channel_.WaitVerified(next_, start + kWaitSlice, stopped) != ipc::WaitResult::kReached) {
      continue;
    }
    metrics_->wait_seconds.Observe(Since(start));
    const uint64_t verified = channel_.verified();
    next_ = std::max(next_, OldestReadable(verified));
    serve(next_, next_ == verified);
    ++next_;
  }
}

uint32_t DraftLoop::LocalGeneration(const ipc::LaneRecord& lane) {
  SlotState& slot = slots_[static_cast<size_t>(lane.slot)];
  const bool cold = (lane.flags & ipc::kLaneCold) != 0;
  if (!slot.known || slot.generation != lane.generation || cold) {
    slot.known = true;
    slot.generation = lane.generation;
    ++slot.local_generation;
    metrics_->cold_starts.Increment();
  }
  return slot.local_generation;
}

void DraftLoop::Forget(int32_t slot) {
  if (slot < 0 || slot >= static_cast<int32_t>(slots_.size())) return;
  slots_[static_cast<size_t>(slot)].known = false;
}

void DraftLoop::TakeLanes(uint64_t step, bool newest) {
  const size_t row = 3 * static_cast<size_t>(channel_.view().layout().sizes.width);
  const float* features = channel_.view().features(step);
  for (size_t i = 0; i < round_.lanes.size(); ++i) {
    const ipc::LaneRecord& lane = round_.lanes[i];
    const bool valid = channel_.ValidLane(lane, round_) &&
                       slots_[static_cast<size_t>(lane.slot)].last_step != step;
    if (!valid) {
      metrics_->invalid_lanes.Increment();
      Forget(lane.slot);
      continue;
    }
    slots_[static_cast<size_t>(lane.slot)].last_step = step;
    answered_.push_back(i);
    lanes_.push_back({.slot = lane.slot,
                      .generation = LocalGeneration(lane),
                      .count = lane.count,
                      .wanted = newest ? std::min(lane.wanted, drafter_->max_drafts()) : 0,
                      .position = lane.position,
                      .features = features + static_cast<size_t>(lane.first_row) * row,
                      .next_tokens = round_.tokens.data() + lane.first_row});
    metrics_->certain_positions.Increment(lane.count);
  }
}

void DraftLoop::Answer(uint64_t step, double seconds) {
  records_.clear();
  for (const ipc::LaneRecord& lane : round_.lanes) {
    records_.push_back({.epoch = channel_.view().epoch(),
                        .step = step,
                        .generation = lane.generation,
                        .slot = lane.slot,
                        .draft_micros = static_cast<uint32_t>(std::min(seconds * 1e6, 4e9))});
  }
  for (size_t i = 0; i < lanes_.size(); ++i) {
    ipc::DraftRecord& record = records_[answered_[i]];
    record.count = std::clamp(results_[i].count, 0, lanes_[i].wanted);
    std::copy_n(results_[i].tokens, record.count, record.tokens);
    metrics_->drafted_tokens.Increment(record.count);
  }
  channel_.Publish(step, records_);
}

void DraftLoop::Serve(uint64_t step, bool newest) {
  lanes_.clear();
  answered_.clear();
  const ipc::Clock::time_point start = ipc::Clock::now();
  if (!channel_.Read(step, round_)) round_.lanes.clear();
  TakeLanes(step, newest);
  results_.assign(lanes_.size(), Drafts{});
  if (!lanes_.empty()) drafter_->Draft(lanes_, absl::MakeSpan(results_));
  if (channel_.MayBeOverwritten(step)) {
    // What was fed may be a mixture of two rounds.
    for (const DraftLane& lane : lanes_) Forget(lane.slot);
    results_.assign(lanes_.size(), Drafts{});
  }
  const double seconds = Since(start);
  metrics_->rounds.Increment();
  metrics_->draft_seconds.Observe(seconds);
  Answer(step, seconds);
}

void DraftLoop::EnqueueRound(uint64_t step) {
  const ipc::BlockView& view = channel_.view();
  const auto lanes = static_cast<size_t>(view.layout().sizes.max_lanes);
  const auto word = static_cast<uint32_t>(step);
  device_lanes_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const ipc::LaneRecord& lane = round_.lanes[answered_[i]];
    device_lanes_.push_back({.known = lanes_[i],
                             .drafts = lane.drafts,
                             .chooses = (lane.flags & ipc::kLaneChooses) != 0,
                             .record = static_cast<int32_t>(answered_[i]),
                             .generation = lane.generation});
  }
  backend_->WaitWord(view.device_word(ipc::kDeviceVerified), word);
  drafter_->Enqueue({.epoch = view.epoch(),
                     .step = step,
                     .certain = {view.certain(step), lanes},
                     .answers = {view.device_drafts(step), lanes},
                     .times = view.times(step)},
                    device_lanes_);
  backend_->WriteWord(view.device_word(ipc::kDeviceDrafted), word);
}

void DraftLoop::ServeOnDevice(uint64_t step, bool newest, absl::FunctionRef<bool()> stopped) {
  lanes_.clear();
  answered_.clear();
  if (!channel_.Read(step, round_)) round_.lanes.clear();
  TakeLanes(step, newest);
  channel_.Acknowledge(step);
  RoundTimes times;
  watchdog_->Arm(ipc::Clock::time_point::max(), [stopped] { return stopped(); });
  EnqueueRound(step);
  backend_->CopyOut(&times, channel_.view().times(step), sizeof(times));
  fed_.assign(lanes_.size(), 0);
  drafter_->Finish(absl::MakeSpan(fed_));
  watchdog_->Disarm();
  const bool overwritten = channel_.MayBeOverwritten(step);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (fed_[i] == 0 || overwritten) Forget(lanes_[i].slot);
    if (fed_[i] > 0) metrics_->drafted_tokens.Increment(lanes_[i].wanted);
  }
  metrics_->rounds.Increment();
  if (times.finished > times.started)
    metrics_->draft_seconds.Observe(static_cast<double>(times.finished - times.started) * 1e-9);
}

}  // namespace tandem
