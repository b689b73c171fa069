#include "services/verifier/draft_exchange.h"

#include <algorithm>

#include "absl/time/clock.h"

namespace tandem {

DraftExchange::DraftExchange(DraftPort* port, VerifierMetrics* metrics, const Scheduler* scheduler)
    : port_(port), metrics_(metrics), scheduler_(scheduler) {}

void DraftExchange::Collect() {
  missing_ = refused_ ? Undrafted::kLate : Undrafted::kWarmUp;
  if (!port_->Attached()) missing_ = Undrafted::kNoDrafter;
  if (sent_.empty()) return;
  results_.assign(sent_.size(), Drafts{});
  const DraftOutcome outcome = port_->Collect(absl::MakeSpan(results_));
  switch (outcome) {
    case DraftOutcome::kDrafted:
      metrics_->draft_seconds.Observe(absl::ToDoubleSeconds(absl::Now() - published_at_));
      break;
    case DraftOutcome::kOnDevice:
      break;
    case DraftOutcome::kLate:
      missing_ = Undrafted::kLate;
      break;
    case DraftOutcome::kInvalid:
    case DraftOutcome::kNoDrafter:
      missing_ = Undrafted::kNoDrafter;
      break;
  }
  for (size_t i = 0; i < sent_.size(); ++i) {
    const bool on_device = outcome == DraftOutcome::kOnDevice;
    const bool came = on_device || outcome == DraftOutcome::kDrafted;
    const int count = came ? std::min(results_[i].count, sent_[i].wanted) : 0;
    Reply* const reply = sent_[i].reply;
    if (reply == nullptr) {
      metrics_->discarded_drafts[static_cast<size_t>(Discarded::kStale)]->Increment(count);
      continue;
    }
    reply->drafts.assign(results_[i].tokens, results_[i].tokens + count);
    if (on_device) std::fill(reply->drafts.begin(), reply->drafts.end(), kDraftOnDevice);
    reply->drafts_position = reply->session().position();
  }
  sent_.clear();
}

FeatureTap DraftExchange::Tap() {
  const bool attached = port_->Attached();
  rows_ = attached ? port_->FeatureRows() : nullptr;
  refused_ = attached && rows_ == nullptr;
  return {.taps = {port_->taps()[0], port_->taps()[1]}, .rows = rows_};
}

void DraftExchange::Plan(const StepPlan& plan) {
  DeviceHandoff* const device = port_->device();
  planned_ = device != nullptr && device->live();
  if (!planned_ || rows_ == nullptr) return;
  lanes_.clear();
  int decoding = scheduler_->decoding();
  for (const PlannedLane& lane : plan.lanes) decoding += lane.choose && lane.reply->prefilling();
  int row = 0;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    const PlannedLane& lane = plan.lanes[i];
    if (AddPlanned(lane, row, decoding)) {
      lanes_.back().pass_lane = static_cast<int32_t>(i);
      sent_.push_back({.reply = lane.reply, .wanted = lanes_.back().wanted});
    }
    row += lane.certain + lane.drafts;
  }
  if (!lanes_.empty()) device->Plan(lanes_);
}

// As AddLane, from what is known before the pass: it may end the reply, and gives at least one
// token.
bool DraftExchange::AddPlanned(const PlannedLane& planned, int first_row, int decoding) {
  const Reply& reply = *planned.reply;
  const Session& session = reply.session();
  if (reply.input().max_drafts == 0) return false;
  int wanted = scheduler_->Wanted(reply, planned.choose ? decoding : decoding + 1);
  if (!planned.choose && wanted == 0) return false;
  const int64_t useful = planned.choose ? std::max<int64_t>(0, reply.remaining() - 2) : 0;
  wanted = static_cast<int>(std::min<int64_t>({wanted, useful, port_->max_drafts()}));
  // A kept session goes on later; its drafter stays warm if it was.
  if (planned.choose && wanted == 0 && !session.kept()) return false;
  const int64_t end = session.consumed() + planned.certain;
  const int64_t begin = std::max(session.consumed(), session.position() - kUsefulPositions);
  if (begin >= end) return false;
  lanes_.push_back({.slot = session.slot().index(),
                    .generation = session.slot().generation(),
                    .first_row = first_row + static_cast<int>(begin - session.consumed()),
                    .count = static_cast<int>(end - begin),
                    .wanted = wanted,
                    .position = begin,
                    .next_tokens = session.tokens().data() + begin + 1,
                    .drafts = planned.drafts,
                    .chooses = planned.choose});
  return true;
}

void DraftExchange::Publish(const std::vector<FedLane>& fed) {
  if (planned_ || rows_ == nullptr) return;
  lanes_.clear();
  int decoding = scheduler_->decoding();
  for (const FedLane& lane : fed) decoding -= lane.ended && !lane.reply->prefilling();
  for (const FedLane& lane : fed) {
    if (AddLane(lane, decoding)) {
      sent_.push_back({.reply = lane.ended ? nullptr : lane.reply, .wanted = lanes_.back().wanted});
    }
  }
  if (lanes_.empty()) return;
  published_at_ = absl::Now();
  port_->Publish(lanes_);
}

bool DraftExchange::AddLane(const FedLane& fed, int decoding) {
  const Reply& reply = *fed.reply;
  const Session& session = reply.session();
  const bool prefilling = reply.prefilling();
  PublishedLane lane{.slot = session.slot().index(), .generation = session.slot().generation()};
  if (fed.ended) {
    // A kept session goes on later; its drafter stays warm if it was.
    if (!session.kept() || reply.input().max_drafts == 0) return false;
  } else if (prefilling) {
    if (scheduler_->Wanted(reply, decoding + 1) == 0) return false;
  } else {
    lane.wanted = std::min(scheduler_->Wanted(reply, decoding), port_->max_drafts());
    if (lane.wanted == 0) return false;
  }
  const int64_t last = session.position() - (prefilling ? 1 : 2);
  const int64_t begin = std::max(fed.consumed, last - (kUsefulPositions - 1));
  const int64_t end = std::min(session.consumed(), session.position() - 1);
  if (begin >= end) return false;
  lane.first_row = fed.first_row + static_cast<int>(begin - fed.consumed);
  lane.count = static_cast<int>(end - begin);
  lane.position = begin;
  lane.next_tokens = session.tokens().data() + begin + 1;
  lanes_.push_back(lane);
  return true;
}

void DraftExchange::Forget(const Reply* reply) {
  metrics_->discarded_drafts[static_cast<size_t>(Discarded::kStale)]->Increment(
      static_cast<int>(reply->drafts.size()));
  for (Sent& sent : sent_) {
    if (sent.reply == reply) sent.reply = nullptr;
  }
}

}  // namespace tandem
