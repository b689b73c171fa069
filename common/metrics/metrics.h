#pragma once

#include <array>
#include <string>

#include "common/metrics/metrics_page.h"

namespace tandem {

inline constexpr int kMetricDepths = 8;  // most drafts per round; index i counts depth i + 1

// Why a round of a lane had no draft.
enum class Undrafted {
  kBatchSize,
  kRequestOff,
  kNoDrafter,
  kLate,
  kDeadline,
  kWarmUp,
  kCost,
  kCount
};
// Why produced drafts were never verified.
enum class Discarded { kStale, kLate, kInvalid, kReplanned, kCount };
// Why a request was refused at the door.
enum class Rejected { kQueueFull, kSlotsFull, kDeadline, kDraining, kTooLong, kCount };
enum class StepKind { kPlain, kVerify, kPrefill, kMixed, kCount };

template <class Metric, class Enum>
using ByEnum = std::array<Metric*, static_cast<size_t>(Enum::kCount)>;

// What the verifier's engine and hand-off count. Invariants: retained <= accepted <= drafted;
// drafted at depth d+1 <= drafted at depth d; generated + trimmed = accepted + lane rounds (drafted
// and undrafted); used + free slots = slots.
struct VerifierMetrics {
  explicit VerifierMetrics(MetricsPage& page);

  prometheus::Counter& prompt_tokens_computed;
  prometheus::Counter& prompt_tokens_cached;
  prometheus::Counter& generated_tokens;
  prometheus::Counter& trimmed_tokens;
  prometheus::Counter& draft_rounds;
  prometheus::Counter& retained_tokens;
  prometheus::Counter& near_ties;
  prometheus::Counter& slow_readers_paused;
  prometheus::Counter& slow_readers_cancelled;
  prometheus::Counter& watchdog_releases;
  std::array<prometheus::Counter*, kMetricDepths> drafted;
  std::array<prometheus::Counter*, kMetricDepths> accepted;
  ByEnum<prometheus::Counter, Undrafted> undrafted_rounds;
  ByEnum<prometheus::Counter, Discarded> discarded_drafts;
  ByEnum<prometheus::Counter, Rejected> rejected;
  ByEnum<prometheus::Counter, StepKind> steps;
  ByEnum<prometheus::Histogram, StepKind> step_seconds;
  prometheus::Histogram& queue_seconds;
  prometheus::Histogram& prefill_seconds;
  prometheus::Histogram& request_seconds;
  prometheus::Histogram& draft_seconds;
  prometheus::Histogram& handoff_seconds;
  prometheus::Histogram& accepted_per_round;
  prometheus::Histogram& lanes_per_step;
  prometheus::Histogram& rows_per_step;
  // Step phases: plan, forward, accept, commit and push.
  prometheus::Histogram& plan_seconds;
  prometheus::Histogram& forward_seconds;
  prometheus::Histogram& commit_seconds;
  prometheus::Gauge& planned_drafts;
  prometheus::Gauge& sessions;
  prometheus::Gauge& state_slots;
  prometheus::Gauge& state_slots_used;
  prometheus::Gauge& queue_depth;
  prometheus::Gauge& drafter_attached;
  prometheus::Gauge& last_step_timestamp_seconds;

  // By label values that are not known before.
  prometheus::Counter& Attaches(const std::string& result) const;
  prometheus::Counter& Detaches(const std::string& reason) const;
  prometheus::Counter& SessionOperations(const std::string& operation,
                                         const std::string& result) const;
  // Exactly one (mode, reason) has the value 1.
  void SetHandoff(const std::string& mode, const std::string& reason);

 private:
  MetricsPage* page_;
  prometheus::Gauge* handoff_info_ = nullptr;
};

// What the router sees of its clients and verifiers.
struct RouterMetrics {
  explicit RouterMetrics(MetricsPage& page);

  prometheus::Histogram& time_to_first_token_seconds;
  prometheus::Histogram& token_latency_seconds;
  prometheus::Histogram& message_interval_seconds;
  prometheus::Histogram& request_seconds;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& generated_tokens;
  prometheus::Counter& trimmed_tokens;
  prometheus::Counter& retained_tokens;
  prometheus::Counter& resumed_streams;
  prometheus::Gauge& verifiers_up;
  prometheus::Gauge& active_streams;
  prometheus::Gauge& sessions;
};

// What the drafter process counts of its own work.
struct DrafterMetrics {
  explicit DrafterMetrics(MetricsPage& page);

  prometheus::Counter& rounds;
  prometheus::Counter& certain_positions;
  prometheus::Counter& drafted_tokens;
  prometheus::Counter& cold_starts;
  prometheus::Counter& invalid_lanes;
  prometheus::Counter& attaches;
  prometheus::Histogram& draft_seconds;
  prometheus::Histogram& wait_seconds;
  prometheus::Gauge& attached;
};

// tandem_requests_total{method,outcome} and tandem_generations_total{finish_reason}, in every
// process that serves.
prometheus::Counter& RequestsTotal(MetricsPage& page, const std::string& method,
                                   const std::string& outcome);
prometheus::Counter& GenerationsTotal(MetricsPage& page, const std::string& finish_reason);

// tandem_build_info, tandem_model_info, tandem_sidecar_info: gauge 1 with the facts as labels.
void SetInfo(MetricsPage& page, const std::string& name, const std::string& help,
             const MetricLabels& facts);

// tandem_serving_state{state}: 1 for the current one of loading, serving, draining.
void SetServingState(MetricsPage& page, const std::string& state);

}  // namespace tandem
