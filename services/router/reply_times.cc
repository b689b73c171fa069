#include "services/router/reply_times.h"

namespace tandem {

void ReplyTimes::Message(absl::Time now, int tokens) {
  if (first_ == absl::InfinitePast()) {
    first_ = last_ = now;
    metrics_->time_to_first_token_seconds.Observe(absl::ToDoubleSeconds(now - arrival_));
    return;
  }
  const double gap = absl::ToDoubleSeconds(now - last_);
  metrics_->message_interval_seconds.Observe(gap);
  for (int i = 0; i < tokens; ++i) metrics_->token_latency_seconds.Observe(gap / tokens);
  last_ = now;
}

v1::Timings ReplyTimes::End(absl::Time now, const v1::Timings* verifier) {
  metrics_->request_seconds.Observe(absl::ToDoubleSeconds(now - arrival_));
  v1::Timings timings;
  const absl::Time first = first_ == absl::InfinitePast() ? now : first_;
  const absl::Time started = started_ == absl::InfinitePast() ? first : started_;
  timings.set_queue_seconds(absl::ToDoubleSeconds(started - arrival_));
  timings.set_prefill_seconds(absl::ToDoubleSeconds(first - started));
  if (verifier != nullptr) {
    timings.set_queue_seconds(verifier->queue_seconds());
    timings.set_prefill_seconds(verifier->prefill_seconds());
  }
  timings.set_decode_seconds(absl::ToDoubleSeconds(now - first));
  timings.set_time_to_first_token_seconds(absl::ToDoubleSeconds(first - arrival_));
  return timings;
}

}  // namespace tandem
