#pragma once

#include <optional>

#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/verifier/engine_options.h"
#include "services/verifier/generation.h"
#include "services/verifier/scheduler.h"
#include "services/verifier/sessions.h"
#include "services/verifier/step_cost.h"

namespace tandem {

// Decides at the door whether a request may wait for a slot. Engine thread only.
class Admission final {
 public:
  // All must outlive the admission.
  Admission(const EngineOptions* options, const RecurrentState* state, const SessionTable* sessions,
            const Scheduler* scheduler, const StepCost* cost, VerifierMetrics* metrics);

  // Why the request is refused, counted; nothing when it may enter. See Engine::Submit.
  std::optional<ReplyFailed> Refuse(const GenerationInput& input, bool draining,
                                    absl::Time now) const;

 private:
  std::optional<ReplyFailed> RefuseIdentity(const GenerationInput& input) const;
  std::optional<ReplyFailed> RefuseSession(const GenerationInput& input) const;
  std::optional<ReplyFailed> RefuseDeadline(const GenerationInput& input, absl::Time now) const;
  std::optional<ReplyFailed> RefuseOverload() const;
  int64_t WaitingRows() const;
  void Count(Rejected reason) const;

  const EngineOptions* const options_;
  const RecurrentState* const state_;
  const SessionTable* const sessions_;
  const Scheduler* const scheduler_;
  const StepCost* const cost_;
  VerifierMetrics* const metrics_;
};

}  // namespace tandem
