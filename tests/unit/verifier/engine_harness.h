#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/metrics/metrics.h"
#include "services/verifier/engine.h"
#include "tests/unit/verifier/demo_model.h"

namespace tandem {

// Keeps what one request was told. Thread-safe.
class RecordingSink final : public TokenSink {
 public:
  void Started(const ReplyStarted& started) override;
  void Round(ReplyRound round) override;
  void Finished(const ReplyFinished& finished) override;
  void Failed(const ReplyFailed& failed) override;
  int unsent_tokens() const override;

  // A client that reads nothing keeps every token unsent until ReadAll.
  void StopReading();
  void ReadAll();

  bool over() const;
  std::vector<int32_t> tokens() const;
  std::vector<ReplyRound> rounds() const;
  std::optional<ReplyStarted> started() const;
  std::optional<ReplyFinished> finished() const;
  std::optional<ReplyFailed> failed() const;

 private:
  mutable std::mutex mutex_;
  bool reading_ = true;
  int unsent_ = 0;
  std::optional<ReplyStarted> started_;
  std::vector<ReplyRound> rounds_;
  std::optional<ReplyFinished> finished_;
  std::optional<ReplyFailed> failed_;
};

// Time that passes only when a test says so.
class FakeClock final {
 public:
  absl::Time now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    const std::lock_guard lock(mutex_);
    now_ += by;
  }

 private:
  mutable std::mutex mutex_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

// An engine over the demo model that the test drives turn by turn on its own thread.
class EngineHarness final {
 public:
  // K drafts for any number of lanes.
  static EngineOptions Options(int slots, int drafts);

  // A null port: no drafter.
  explicit EngineHarness(EngineOptions options, std::unique_ptr<DraftPort> port = nullptr);

  Engine& engine() { return *engine_; }
  FakeClock& clock() { return clock_; }
  VerifierMetrics& metrics() { return metrics_; }
  const MetricsPage& page() const { return *page_; }

  // Request ids are made unique where the input has none.
  std::shared_ptr<RecordingSink> Submit(GenerationInput input);
  uint64_t last_handle() const { return last_handle_; }
  // One turn; true when a pass ran.
  bool Turn() { return engine_->RunOnce(absl::ZeroDuration()); }
  void Turns(int count);
  // Turns until nothing runs and nothing waits; fails the test after `limit` turns.
  void RunAll(int limit = 20000);
  // Submit and RunAll.
  std::shared_ptr<RecordingSink> Run(GenerationInput input);

  absl::Status Cancel(const std::string& request_id, std::optional<int64_t> retain = {});
  absl::StatusOr<SessionInfo> Open(const std::string& id,
                                   absl::Duration idle_timeout = absl::Seconds(600),
                                   const std::string& router_id = "");
  absl::StatusOr<SessionInfo> Describe(const std::string& id);
  absl::Status Close(const std::string& id);

  // Fails the test unless the stated relations between the counters hold.
  void CheckCounters();

 private:
  FakeClock clock_;
  std::unique_ptr<MetricsPage> page_;
  VerifierMetrics metrics_;
  std::unique_ptr<DraftPort> port_;
  std::unique_ptr<Engine> engine_;
  uint64_t last_handle_ = 0;
  int requests_ = 0;
};

// A request over golden case `index`, greedy, `max_tokens` long.
GenerationInput GoldenInput(int index, int max_tokens);
// The three ways of sampling that outputs must be exact for: greedy, T = 0.7, and T = 1 with top_p
// and penalties.
Sampling SamplingKind(int kind, uint64_t seed);

}  // namespace tandem
