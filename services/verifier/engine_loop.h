#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/recent_ids.h"
#include "services/verifier/admission.h"
#include "services/verifier/draft_exchange.h"
#include "services/verifier/engine.h"
#include "services/verifier/scheduler.h"
#include "services/verifier/sessions.h"
#include "services/verifier/step.h"
#include "services/verifier/step_cost.h"

namespace tandem {

// What the engine's thread owns and does; commands and turns never overlap.
class EngineLoop final {
 public:
  static absl::StatusOr<std::unique_ptr<EngineLoop>> Create(Backend* backend, const Rwkv7* model,
                                                            DraftPort* port,
                                                            VerifierMetrics* metrics,
                                                            EngineOptions options);
  ~EngineLoop();

  // Admission, expiry and at most one pass; true when a pass ran.
  bool Turn();
  // How long the next turn may wait for a command.
  absl::Duration IdleTime() const;
  EngineLoad Load() const;

  // Commands; see Engine.
  void Submit(uint64_t handle, absl::Time arrival, GenerationInput input,
              std::shared_ptr<TokenSink> sink);
  void Drop(uint64_t handle);
  absl::Status Cancel(const std::string& request_id, std::optional<int64_t> retain);
  absl::StatusOr<SessionInfo> OpenSession(SessionOptions options);
  absl::StatusOr<SessionInfo> DescribeSession(const std::string& id) const;
  std::vector<SessionInfo> ListSessions(const std::string& after, int limit) const;
  absl::Status CloseSession(const std::string& id);
  void RouterJoined(const std::string& router_id) { sessions_.RouterJoined(router_id); }
  void RouterLeft(const std::string& router_id) { sessions_.RouterLeft(router_id, Now()); }
  void Drain(absl::Duration timeout, std::function<void()> done);
  // Fails every request that is left.
  void FailAll(const std::string& message);

 private:
  EngineLoop(DraftPort* port, VerifierMetrics* metrics, EngineOptions options,
             std::unique_ptr<RecurrentState> state);

  // Turn.
  void Expire();
  void UpdatePauses();
  void Admit();
  bool GiveSlot(Reply& reply);
  void RunPlan(const StepPlan& plan);
  std::vector<StepLane> Lanes(const StepPlan& plan) const;
  void CountStep(const StepPlan& plan, absl::Duration took);
  void CountRound(const PlannedLane& lane, const Reply::Taken& taken, int drafted, int accepted);
  void UpdateGauges();

  // Ends of a reply; each removes it.
  void Finish(Reply* reply, const Ending& ending);
  absl::Status Retain(Reply* reply, int64_t tokens);
  absl::Status CutFinished(const std::string& request_id, int64_t tokens);
  void Fail(Reply* reply, absl::Status status, const std::string& reason);
  void Remove(Reply* reply, bool finished);

  absl::Time Now() const { return options_.now(); }

  const EngineOptions options_;
  VerifierMetrics* const metrics_;
  DraftPort* const port_;
  const std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Step> step_;
  StepCost cost_;
  SessionTable sessions_;
  Scheduler scheduler_;
  Admission admission_;
  DraftExchange exchange_;

  RecentIds ended_ids_{4096};

  bool draining_ = false;
  absl::Time drain_deadline_ = absl::InfiniteFuture();
  std::vector<std::function<void()>> drained_;
};

}  // namespace tandem
