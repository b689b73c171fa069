#include "services/verifier/engine_loop.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "services/verifier/record_passes.h"
#include "services/verifier/simulated_acceptance.h"

namespace tandem {

EngineLoop::EngineLoop(DraftPort* port, VerifierMetrics* metrics, EngineOptions options,
                       std::unique_ptr<RecurrentState> state)
    : options_(std::move(options)),
      metrics_(metrics),
      port_(port),
      state_(std::move(state)),
      sessions_(state_.get(), options_.max_sessions, options_.router_grace),
      scheduler_(&options_),
      admission_(&options_, state_.get(), &sessions_, &scheduler_, &cost_, metrics),
      exchange_(port_, metrics, &scheduler_) {}

EngineLoop::~EngineLoop() = default;

absl::StatusOr<std::unique_ptr<EngineLoop>> EngineLoop::Create(Backend* backend, const Rwkv7* model,
                                                               DraftPort* port,
                                                               VerifierMetrics* metrics,
                                                               EngineOptions options) {
  ASSIGN_OR_RETURN(auto state,
                   RecurrentState::Create(backend, model->config(), options.max_sequences));
  std::unique_ptr<EngineLoop> loop(
      new EngineLoop(port, metrics, std::move(options), std::move(state)));
  ASSIGN_OR_RETURN(loop->step_, Step::Create(backend, model, loop->state_.get(),
                                             {.max_lanes = loop->options_.max_sequences,
                                              .max_rows = loop->options_.max_rows(),
                                              .usable_vocab = loop->options_.usable_vocab}));
  const FeatureTap no_rows = {.taps = {port->taps()[0], port->taps()[1]}};
  RecordPasses(*backend, loop->options_.schedule, no_rows, *loop->state_, *loop->step_);
  metrics->state_slots.Set(loop->state_->slots());
  loop->UpdateGauges();
  return loop;
}

bool EngineLoop::Turn() {
  const absl::Time start = absl::Now();
  exchange_.Collect();
  Expire();
  UpdatePauses();
  Admit();
  bool ran = false;
  if (scheduler_.runnable()) {
    const StepPlan plan = scheduler_.Plan(exchange_.missing());
    metrics_->planned_drafts.Set(plan.drafts);
    metrics_->plan_seconds.Observe(absl::ToDoubleSeconds(absl::Now() - start));
    RunPlan(plan);
    CountStep(plan, absl::Now() - start);
    ran = true;
  }
  // Under MPS the fault of another process ends this one's context too. An idle verifier learns of
  // it before a request does, and is started again meanwhile.
  if (scheduler_.empty()) step_->CheckDevice();
  if (draining_ && scheduler_.empty()) {
    for (const auto& done : std::exchange(drained_, {})) done();
  }
  UpdateGauges();
  return ran;
}

absl::Duration EngineLoop::IdleTime() const {
  if (scheduler_.runnable()) return absl::ZeroDuration();
  if (!scheduler_.empty()) return absl::Milliseconds(5);
  return sessions_.size() > 0 || draining_ ? absl::Milliseconds(100) : absl::Seconds(1);
}

EngineLoad EngineLoop::Load() const {
  return {.accepting = !draining_,
          .slots = state_->slots(),
          .slots_used = state_->slots() - state_->free_slots(),
          .active = static_cast<int>(scheduler_.running().size()),
          .queued = static_cast<int>(scheduler_.waiting().size()),
          .sessions = sessions_.size(),
          .max_sessions = options_.max_sessions};
}

void EngineLoop::Expire() {
  const absl::Time now = Now();
  if (now >= drain_deadline_) FailAll("the verifier is draining");
  std::vector<Reply*> late;
  for (const auto* replies : {&scheduler_.waiting(), &scheduler_.running()}) {
    for (const auto& reply : *replies) {
      if (now >= reply->input().deadline) late.push_back(reply.get());
    }
  }
  for (Reply* reply : late) {
    Fail(reply, absl::DeadlineExceededError("the deadline passed"), "DEADLINE_PASSED");
  }
  for (const std::string& id : sessions_.Expired(now)) {
    sessions_.Close(id);
    metrics_->SessionOperations("evict", "OK").Increment();
  }
}

void EngineLoop::UpdatePauses() {
  const absl::Time now = Now();
  std::vector<Reply*> stuck;
  for (const auto& reply : scheduler_.running()) {
    const int unsent = reply->sink().unsent_tokens();
    if (!reply->paused_since) {
      if (unsent <= options_.unsent_limit) continue;
      reply->paused_since = now;
      metrics_->slow_readers_paused.Increment();
    } else if (unsent <= options_.unsent_limit / 2) {
      reply->paused_since.reset();
    } else if (now - *reply->paused_since >= options_.pause_limit) {
      stuck.push_back(reply.get());
    }
  }
  for (Reply* reply : stuck) {
    metrics_->slow_readers_cancelled.Increment();
    Fail(reply, absl::CancelledError("the client did not read its stream"), "SLOW_READER");
  }
}

bool EngineLoop::GiveSlot(Reply& reply) {
  if (reply.session().resident()) return true;
  if (state_->free_slots() == 0 && !sessions_.SpillOne()) return false;
  CHECK_OK(reply.session().MakeResident(*state_));
  return true;
}

void EngineLoop::Admit() {
  while (true) {
    Reply* reply = scheduler_.NextWaiting(/*resident_only=*/false);
    if (reply == nullptr) return;
    if (!GiveSlot(*reply)) {
      reply = scheduler_.NextWaiting(/*resident_only=*/true);
      if (reply == nullptr) return;
    }
    const absl::Time now = Now();
    scheduler_.Start(reply);
    reply->Begin(*state_, now);
    metrics_->queue_seconds.Observe(absl::ToDoubleSeconds(now - reply->arrival()));
    metrics_->prompt_tokens_cached.Increment(
        static_cast<double>(reply->usage().cached_prompt_tokens));
    const Session& session = reply->session();
    step_->BeginReply(
        session.slot(),
        absl::MakeConstSpan(session.tokens()).first(static_cast<size_t>(session.reply_begin)),
        reply->input().emitted, reply->input());
    if (reply->remaining() <= 0) Finish(reply, {.cause = FinishCause::kMaxTokens});
  }
}

std::vector<StepLane> EngineLoop::Lanes(const StepPlan& plan) const {
  const double simulated = options_.simulated_accepted;
  std::vector<StepLane> lanes;
  for (const PlannedLane& lane : plan.lanes) {
    const Session& session = lane.reply->session();
    const absl::Span<const int32_t> tokens = absl::MakeConstSpan(session.tokens());
    lanes.push_back(
        {.slot = &session.slot(),
         .certain = tokens.subspan(static_cast<size_t>(session.consumed()), lane.certain),
         .drafts = absl::MakeConstSpan(lane.reply->drafts).first(lane.drafts),
         .choose = lane.choose,
         .generated = static_cast<int32_t>(lane.reply->generated()),
         .position = session.position(),
         .sampling = &lane.reply->input().sampling,
         .simulated = simulated < 0 ? -1 : SimulatedAccepted(simulated, session.position())});
  }
  return lanes;
}

void EngineLoop::RunPlan(const StepPlan& plan) {
  const FeatureTap tap = exchange_.Tap();
  exchange_.Plan(plan);
  const absl::Time start = absl::Now();
  std::vector<LaneChoice> choices = step_->Run(Lanes(plan), tap, port_->device());
  const absl::Time forwarded = absl::Now();
  metrics_->forward_seconds.Observe(absl::ToDoubleSeconds(forwarded - start));

  const absl::Time now = Now();
  std::vector<Reply::Taken> taken;
  std::vector<FedLane> fed;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    const PlannedLane& lane = plan.lanes[i];
    Reply& reply = *lane.reply;
    Session& session = reply.session();
    const int drafted = choices[i].drafted;
    fed.push_back({.reply = &reply,
                   .first_row = step_->first_row(static_cast<int>(i)),
                   .consumed = session.consumed()});
    const int unused = static_cast<int>(reply.drafts.size()) - lane.drafts;
    metrics_->discarded_drafts[static_cast<size_t>(Discarded::kReplanned)]->Increment(unused);
    reply.drafts.clear();
    const bool first = reply.prefilling();
    if (first) metrics_->prompt_tokens_computed.Increment(lane.certain);
    const int accepted = choices[i].accepted;
    metrics_->near_ties.Increment(choices[i].near_ties);
    taken.push_back(reply.Take(lane.certain, drafted, std::move(choices[i]), now));
    if (first && session.kept() && session.consumed() == session.reply_begin)
      session.SaveCheckpoint(*state_);
    if (first && !reply.prefilling()) {
      metrics_->prefill_seconds.Observe(absl::ToDoubleSeconds(reply.Timings(now).prefill));
    }
    fed.back().ended = taken.back().ending.has_value();
    if (lane.choose) CountRound(lane, taken.back(), drafted, accepted);
  }
  exchange_.Publish(fed);
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    Reply* const reply = plan.lanes[i].reply;
    if (!taken[i].round.tokens.empty()) reply->sink().Round(std::move(taken[i].round));
    if (taken[i].ending) Finish(reply, *taken[i].ending);
  }
  metrics_->commit_seconds.Observe(absl::ToDoubleSeconds(absl::Now() - forwarded));
}

void EngineLoop::CountStep(const StepPlan& plan, absl::Duration took) {
  const int lanes = static_cast<int>(plan.lanes.size());
  bool drafted = false;
  for (const PlannedLane& lane : plan.lanes) drafted |= lane.drafts > 0;
  StepKind kind = drafted ? StepKind::kVerify : StepKind::kPlain;
  if (plan.decoding < lanes) kind = plan.decoding > 0 ? StepKind::kMixed : StepKind::kPrefill;
  metrics_->steps[static_cast<size_t>(kind)]->Increment();
  metrics_->step_seconds[static_cast<size_t>(kind)]->Observe(absl::ToDoubleSeconds(took));
  metrics_->lanes_per_step.Observe(lanes);
  metrics_->rows_per_step.Observe(plan.rows);
  metrics_->last_step_timestamp_seconds.Set(absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()));
  cost_.Observe(plan.rows, took);
}

void EngineLoop::CountRound(const PlannedLane& lane, const Reply::Taken& taken, int drafted,
                            int accepted) {
  if (drafted > 0) {
    metrics_->draft_rounds.Increment();
    metrics_->accepted_per_round.Observe(accepted);
  } else {
    // Planned with drafts that did not come.
    const Undrafted why = lane.drafts > 0 ? Undrafted::kLate : lane.undrafted;
    metrics_->undrafted_rounds[static_cast<size_t>(why)]->Increment();
  }
  for (int d = 0; d < drafted; ++d) metrics_->drafted[d]->Increment();
  for (int d = 0; d < accepted; ++d) metrics_->accepted[d]->Increment();
  metrics_->generated_tokens.Increment(static_cast<double>(taken.round.tokens.size()));
  metrics_->retained_tokens.Increment(taken.round.accepted);
  metrics_->trimmed_tokens.Increment(taken.trimmed);
}

void EngineLoop::UpdateGauges() {
  const EngineLoad load = Load();
  int anonymous = 0;
  for (const auto& reply : scheduler_.running()) anonymous += !reply->session().kept();
  metrics_->state_slots_used.Set(load.slots_used);
  metrics_->queue_depth.Set(load.queued);
  metrics_->sessions.Set(load.sessions + anonymous);
}

}  // namespace tandem
