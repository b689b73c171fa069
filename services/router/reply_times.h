#pragma once

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// When things happened to one reply, as its client sees it, and the histograms of that.
class ReplyTimes final {
 public:
  ReplyTimes(absl::Time arrival, RouterMetrics* metrics) : arrival_(arrival), metrics_(metrics) {}

  void Started(absl::Time now) { started_ = now; }
  // A message with `tokens` tokens, or with text only, is on its way to the client.
  void Message(absl::Time now, int tokens);
  // The terminal event. `verifier` holds what the only verifier of the reply measured, else null.
  v1::Timings End(absl::Time now, const v1::Timings* verifier);

 private:
  const absl::Time arrival_;
  RouterMetrics* const metrics_;
  absl::Time started_ = absl::InfinitePast();
  absl::Time first_ = absl::InfinitePast();
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace tandem
