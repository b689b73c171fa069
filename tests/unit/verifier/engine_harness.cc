#include "tests/unit/verifier/engine_harness.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "services/verifier/inprocess_draft_port.h"

namespace tandem {

void RecordingSink::Started(const ReplyStarted& started) {
  const std::lock_guard lock(mutex_);
  CHECK(!started_ && rounds_.empty() && !finished_ && !failed_);
  started_ = started;
}

void RecordingSink::Round(ReplyRound round) {
  const std::lock_guard lock(mutex_);
  CHECK(started_ && !finished_ && !failed_ && !round.tokens.empty());
  if (!reading_) unsent_ += static_cast<int>(round.tokens.size());
  rounds_.push_back(std::move(round));
}

void RecordingSink::Finished(const ReplyFinished& finished) {
  const std::lock_guard lock(mutex_);
  CHECK(started_ && !finished_ && !failed_);
  finished_ = finished;
}

void RecordingSink::Failed(const ReplyFailed& failed) {
  const std::lock_guard lock(mutex_);
  CHECK(!finished_ && !failed_);
  failed_ = failed;
}

int RecordingSink::unsent_tokens() const {
  const std::lock_guard lock(mutex_);
  return unsent_;
}

void RecordingSink::StopReading() {
  const std::lock_guard lock(mutex_);
  reading_ = false;
}

void RecordingSink::ReadAll() {
  const std::lock_guard lock(mutex_);
  reading_ = true;
  unsent_ = 0;
}

bool RecordingSink::over() const {
  const std::lock_guard lock(mutex_);
  return finished_.has_value() || failed_.has_value();
}

std::vector<int32_t> RecordingSink::tokens() const {
  const std::lock_guard lock(mutex_);
  std::vector<int32_t> tokens;
  for (const ReplyRound& round : rounds_) {
    tokens.insert(tokens.end(), round.tokens.begin(), round.tokens.end());
  }
  return tokens;
}

std::vector<ReplyRound> RecordingSink::rounds() const {
  const std::lock_guard lock(mutex_);
  return rounds_;
}

std::optional<ReplyStarted> RecordingSink::started() const {
  const std::lock_guard lock(mutex_);
  return started_;
}

std::optional<ReplyFinished> RecordingSink::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

std::optional<ReplyFailed> RecordingSink::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

EngineOptions EngineHarness::Options(int slots, int drafts) {
  EngineOptions options;
  options.max_sequences = slots;
  options.schedule = *DraftSchedule::Parse(absl::StrCat("0:", drafts));
  return options;
}

EngineHarness::EngineHarness(EngineOptions options, std::unique_ptr<DraftPort> port)
    : page_(std::move(*MetricsPage::Create(""))),
      metrics_(*page_),
      port_(port != nullptr ? std::move(port) : std::make_unique<NoDraftPort>()) {
  options.now = [this] { return clock_.now(); };
  auto engine = Engine::Create(Demo().backend.get(), Demo().model.get(), port_.get(), &metrics_,
                               std::move(options));
  CHECK_OK(engine.status());
  engine_ = std::move(*engine);
}

std::shared_ptr<RecordingSink> EngineHarness::Submit(GenerationInput input) {
  if (input.request_id.empty()) input.request_id = absl::StrCat("test-", ++requests_);
  auto sink = std::make_shared<RecordingSink>();
  last_handle_ = engine_->Submit(std::move(input), sink);
  return sink;
}

void EngineHarness::Turns(int count) {
  for (int i = 0; i < count; ++i) Turn();
}

void EngineHarness::RunAll(int limit) {
  for (int i = 0; i < limit; ++i) {
    Turn();
    const EngineLoad load = engine_->load();
    if (load.active + load.queued == 0) return;
  }
  FAIL() << "requests left after " << limit << " turns";
}

std::shared_ptr<RecordingSink> EngineHarness::Run(GenerationInput input) {
  auto sink = Submit(std::move(input));
  RunAll();
  return sink;
}

absl::Status EngineHarness::Cancel(const std::string& request_id, std::optional<int64_t> retain) {
  absl::Status result = absl::UnknownError("not answered");
  engine_->Cancel(request_id, retain, [&result](absl::Status status) { result = status; });
  Turn();
  return result;
}

absl::StatusOr<SessionInfo> EngineHarness::Open(const std::string& id, absl::Duration idle_timeout,
                                                const std::string& router_id) {
  absl::StatusOr<SessionInfo> result = absl::UnknownError("not answered");
  engine_->OpenSession({.id = id, .idle_timeout = idle_timeout, .router_id = router_id},
                       [&result](auto session) { result = std::move(session); });
  Turn();
  return result;
}

absl::StatusOr<SessionInfo> EngineHarness::Describe(const std::string& id) {
  absl::StatusOr<SessionInfo> result = absl::UnknownError("not answered");
  engine_->DescribeSession(id, [&result](auto session) { result = std::move(session); });
  Turn();
  return result;
}

absl::Status EngineHarness::Close(const std::string& id) {
  absl::Status result = absl::UnknownError("not answered");
  engine_->CloseSession(id, [&result](absl::Status status) { result = status; });
  Turn();
  return result;
}

void EngineHarness::CheckCounters() {
  double drafted = 0;
  double accepted = 0;
  double undrafted = 0;
  for (int d = 0; d < kMaxDrafts; ++d) {
    EXPECT_LE(metrics_.accepted[d]->Value(), metrics_.drafted[d]->Value()) << "depth " << d + 1;
    const double shallower =
        d > 0 ? metrics_.drafted[d - 1]->Value() : metrics_.draft_rounds.Value();
    EXPECT_LE(metrics_.drafted[d]->Value(), shallower) << "depth " << d + 1;
    drafted += metrics_.drafted[d]->Value();
    accepted += metrics_.accepted[d]->Value();
  }
  for (const auto* counter : metrics_.undrafted_rounds) undrafted += counter->Value();
  EXPECT_LE(accepted, drafted);
  EXPECT_LE(metrics_.retained_tokens.Value(), accepted);
  EXPECT_EQ(metrics_.generated_tokens.Value() + metrics_.trimmed_tokens.Value(),
            accepted + undrafted + metrics_.draft_rounds.Value());
}

GenerationInput GoldenInput(int index, int max_tokens) {
  GenerationInput input;
  input.prompt = Demo().cases[index].ids;
  input.sampling.temperature = 0;
  input.max_tokens = max_tokens;
  input.ignore_eos = true;
  return input;
}

Sampling SamplingKind(int kind, uint64_t seed) {
  Sampling sampling;
  sampling.seed = seed;
  switch (kind) {
    case 0:
      sampling.temperature = 0;
      break;
    case 1:
      sampling.temperature = 0.7f;
      break;
    default:
      sampling.temperature = 1;
      sampling.top_p = 0.9f;
      sampling.presence_penalty = 0.3f;
      sampling.frequency_penalty = 0.4f;
      sampling.repetition_penalty = 1.1f;
      sampling.penalty_decay = 0.98f;
  }
  return sampling;
}

}  // namespace tandem
