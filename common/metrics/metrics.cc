#include "common/metrics/metrics.h"

#include <initializer_list>

namespace tandem {
namespace {

std::array<prometheus::Counter*, kMetricDepths> ByDepth(MetricsPage& page, const std::string& name,
                                                        const std::string& help) {
  std::array<prometheus::Counter*, kMetricDepths> counters;
  for (int d = 0; d < kMetricDepths; ++d) {
    counters[d] = &page.Counter(name, help, {{"depth", std::to_string(d + 1)}});
  }
  return counters;
}

// One counter per value of Enum; `words` in the enum's order.
template <class Enum>
ByEnum<prometheus::Counter, Enum> ByLabel(
    MetricsPage& page, const std::string& name, const std::string& help, const std::string& label,
    const std::array<const char*, static_cast<size_t>(Enum::kCount)>& words) {
  ByEnum<prometheus::Counter, Enum> counters;
  for (size_t i = 0; i < words.size(); ++i) {
    counters[i] = &page.Counter(name, help, {{label, words[i]}});
  }
  return counters;
}

constexpr std::array<const char*, 4> kStepKinds = {"plain", "verify", "prefill", "mixed"};

ByEnum<prometheus::Histogram, StepKind> StepSeconds(MetricsPage& page) {
  ByEnum<prometheus::Histogram, StepKind> histograms;
  for (size_t i = 0; i < kStepKinds.size(); ++i) {
    histograms[i] = &page.Histogram("tandem_step_seconds", "Duration of an engine step.",
                                    FineBuckets(), {{"kind", kStepKinds[i]}});
  }
  return histograms;
}

prometheus::Histogram& Phase(MetricsPage& page, const std::string& phase) {
  return page.Histogram("tandem_step_phase_seconds", "Duration of a phase of an engine step.",
                        FineBuckets(), {{"phase", phase}});
}

prometheus::Counter& PromptTokens(MetricsPage& page, const std::string& source) {
  return page.Counter("tandem_prompt_tokens_total", "Prompt tokens by source.",
                      {{"source", source}});
}

prometheus::Counter& SlowReaders(MetricsPage& page, const std::string& action) {
  return page.Counter("tandem_slow_readers_total", "Lanes held back by a slow client.",
                      {{"action", action}});
}

}  // namespace

VerifierMetrics::VerifierMetrics(MetricsPage& page)
    : prompt_tokens_computed(PromptTokens(page, "computed")),
      prompt_tokens_cached(PromptTokens(page, "cached")),
      generated_tokens(page.Counter("tandem_generated_tokens_total",
                                    "Tokens emitted to clients, after stop trimming.")),
      trimmed_tokens(
          page.Counter("tandem_trimmed_tokens_total", "Tokens computed, then cut by a stop.")),
      draft_rounds(page.Counter("tandem_draft_rounds_total",
                                "Lane rounds with at least one draft verified.")),
      retained_tokens(
          page.Counter("tandem_retained_tokens_total", "Accepted drafts that were emitted.")),
      near_ties(page.Counter("tandem_near_ties_total",
                             "Greedy choices whose two best logits were nearly equal.")),
      slow_readers_paused(SlowReaders(page, "paused")),
      slow_readers_cancelled(SlowReaders(page, "cancelled")),
      watchdog_releases(page.Counter("tandem_watchdog_releases_total",
                                     "Waits for the peer that ran into their deadline.",
                                     {{"side", "verifier"}})),
      drafted(ByDepth(page, "tandem_drafted_tokens_total", "Drafts that entered a verify pass.")),
      accepted(ByDepth(page, "tandem_accepted_tokens_total",
                       "Drafts equal to the base model's choice.")),
      undrafted_rounds(ByLabel<Undrafted>(
          page, "tandem_undrafted_rounds_total", "Lane rounds without drafts, and why.", "reason",
          {"batch_size", "request_off", "no_drafter", "late", "deadline", "warm_up", "cost"})),
      discarded_drafts(ByLabel<Discarded>(page, "tandem_discarded_drafts_total",
                                          "Drafts produced and never verified.", "reason",
                                          {"stale", "late", "invalid", "replanned"})),
      rejected(ByLabel<Rejected>(page, "tandem_rejected_total", "Requests refused at admission.",
                                 "reason",
                                 {"queue_full", "slots_full", "deadline", "draining", "too_long"})),
      steps(ByLabel<StepKind>(page, "tandem_steps_total", "Engine steps.", "kind", kStepKinds)),
      step_seconds(StepSeconds(page)),
      queue_seconds(page.Histogram("tandem_queue_seconds", "Arrival to admission.", LongBuckets())),
      prefill_seconds(
          page.Histogram("tandem_prefill_seconds", "Admission to the first token.", LongBuckets())),
      request_seconds(page.Histogram("tandem_request_seconds", "Arrival to the terminal event.",
                                     LongBuckets())),
      draft_seconds(page.Histogram("tandem_draft_seconds",
                                   "Publishing a round to its drafts being there.", FineBuckets())),
      handoff_seconds(page.Histogram("tandem_handoff_seconds",
                                     "Round trip of the hand-off without draft work.",
                                     FineBuckets())),
      accepted_per_round(page.Histogram("tandem_accepted_per_round",
                                        "Drafts accepted in a round with drafts.", CountBuckets())),
      lanes_per_step(page.Histogram("tandem_lanes_per_step", "Sequences in an engine step.",
                                    PowerOfTwoBuckets())),
      rows_per_step(
          page.Histogram("tandem_rows_per_step", "Tokens in an engine step.", PowerOfTwoBuckets())),
      plan_seconds(Phase(page, "plan")),
      forward_seconds(Phase(page, "forward")),
      commit_seconds(Phase(page, "commit")),
      planned_drafts(page.Gauge("tandem_planned_drafts", "Drafts per sequence in force.")),
      sessions(page.Gauge("tandem_sessions", "Sequences held: running requests and sessions.")),
      state_slots(page.Gauge("tandem_state_slots", "State slots.")),
      state_slots_used(page.Gauge("tandem_state_slots_used", "State slots in use.")),
      queue_depth(page.Gauge("tandem_queue_depth", "Requests waiting for admission.")),
      drafter_attached(page.Gauge("tandem_drafter_attached", "1 while a drafter is attached.")),
      last_step_timestamp_seconds(
          page.Gauge("tandem_last_step_timestamp_seconds", "Unix time of the last finished step.")),
      page_(&page) {}

prometheus::Counter& VerifierMetrics::Attaches(const std::string& result) const {
  return page_->Counter("tandem_drafter_attaches_total", "Handshakes by outcome.",
                        {{"result", result}});
}

prometheus::Counter& VerifierMetrics::Detaches(const std::string& reason) const {
  return page_->Counter("tandem_drafter_detaches_total", "Ended attachments by reason.",
                        {{"reason", reason}});
}

prometheus::Counter& VerifierMetrics::SessionOperations(const std::string& operation,
                                                        const std::string& result) const {
  return page_->Counter("tandem_session_operations_total", "Operations on sessions.",
                        {{"operation", operation}, {"result", result}});
}

void VerifierMetrics::SetHandoff(const std::string& mode, const std::string& reason) {
  if (handoff_info_ != nullptr) handoff_info_->Set(0);
  handoff_info_ = &page_->Gauge("tandem_handoff_info", "Hand-off in use and why.",
                                {{"mode", mode}, {"reason", reason}});
  handoff_info_->Set(1);
}

RouterMetrics::RouterMetrics(MetricsPage& page)
    : time_to_first_token_seconds(page.Histogram("tandem_time_to_first_token_seconds",
                                                 "Arrival to the first token's message.",
                                                 LongBuckets())),
      token_latency_seconds(page.Histogram(
          "tandem_token_latency_seconds",
          "Message gap divided by the message's tokens, once per token.", TokenLatencyBuckets())),
      message_interval_seconds(page.Histogram("tandem_message_interval_seconds",
                                              "Gap between two messages of a stream.",
                                              LatencyBuckets())),
      request_seconds(page.Histogram("tandem_request_seconds", "Arrival to the terminal event.",
                                     LongBuckets())),
      prompt_tokens(PromptTokens(page, "submitted")),
      generated_tokens(page.Counter("tandem_generated_tokens_total",
                                    "Tokens emitted to clients, after stop trimming.")),
      trimmed_tokens(
          page.Counter("tandem_trimmed_tokens_total", "Tokens computed, then cut by a stop.")),
      retained_tokens(
          page.Counter("tandem_retained_tokens_total", "Accepted drafts that were emitted.")),
      resumed_streams(page.Counter("tandem_resumed_streams_total",
                                   "Streams continued after the loss of a verifier.")),
      verifiers_up(page.Gauge("tandem_verifiers_up", "Verifiers that accept work.")),
      active_streams(page.Gauge("tandem_active_streams", "Replies being streamed.")),
      sessions(page.Gauge("tandem_sessions", "Sessions known to the router.")) {}

DrafterMetrics::DrafterMetrics(MetricsPage& page)
    : rounds(page.Counter("tandem_drafter_rounds_total", "Draft rounds answered.")),
      certain_positions(
          page.Counter("tandem_drafter_certain_positions_total", "Certain positions taken in.")),
      drafted_tokens(page.Counter("tandem_drafter_drafts_total", "Drafts produced.")),
      cold_starts(page.Counter("tandem_drafter_cold_starts_total",
                               "Lanes that began with an empty window.")),
      invalid_lanes(page.Counter("tandem_drafter_invalid_lanes_total",
                                 "Lane records refused by validation.")),
      attaches(
          page.Counter("tandem_drafter_process_attaches_total", "Attachments that became ready.")),
      draft_seconds(
          page.Histogram("tandem_draft_seconds", "Work of one draft round.", FineBuckets())),
      wait_seconds(page.Histogram("tandem_drafter_wait_seconds", "Waiting for the next round.",
                                  FineBuckets())),
      attached(page.Gauge("tandem_drafter_attached", "1 while attached to a verifier.")) {}

prometheus::Counter& RequestsTotal(MetricsPage& page, const std::string& method,
                                   const std::string& outcome) {
  return page.Counter("tandem_requests_total", "RPCs by outcome.",
                      {{"method", method}, {"outcome", outcome}});
}

prometheus::Counter& GenerationsTotal(MetricsPage& page, const std::string& finish_reason) {
  return page.Counter("tandem_generations_total", "Finished replies.",
                      {{"finish_reason", finish_reason}});
}

void SetInfo(MetricsPage& page, const std::string& name, const std::string& help,
             const MetricLabels& facts) {
  page.Gauge(name, help, facts).Set(1);
}

void SetServingState(MetricsPage& page, const std::string& state) {
  for (const char* other : {"loading", "serving", "draining"}) {
    page.Gauge("tandem_serving_state", "1 for the current state.", {{"state", other}})
        .Set(state == other ? 1 : 0);
  }
}

}  // namespace tandem
