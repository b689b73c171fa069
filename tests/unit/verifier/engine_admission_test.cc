// The door, the clock and the slow reader.
#include <gtest/gtest.h>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

EngineOptions Small(int slots, int queue_limit) {
  EngineOptions options = EngineHarness::Options(slots, 0);
  options.queue_limit = queue_limit;
  return options;
}

double Rejections(EngineHarness& harness, enum Rejected reason) {
  return harness.metrics().rejected[static_cast<size_t>(reason)]->Value();
}

TEST(EngineAdmission, OverloadIsRefusedAtOnceWithARetryHint) {
  EngineHarness harness(Small(2, 3));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 7; ++i) sinks.push_back(harness.Submit(GoldenInput(0, 8)));
  harness.Turn();
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(sinks[i]->failed()) << i;
  for (int i = 5; i < 7; ++i) {
    const ReplyFailed failed = *sinks[i]->failed();
    EXPECT_EQ(failed.status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(failed.reason, "QUEUE_FULL");
    EXPECT_NE(failed.status.message().find("all 2 sequences"), absl::string_view::npos);
    EXPECT_NE(failed.status.message().find("as may (3)"), absl::string_view::npos) << failed.status;
    EXPECT_TRUE(failed.retryable);
    EXPECT_GT(failed.retry_after, absl::ZeroDuration());
    EXPECT_FALSE(sinks[i]->started());
  }
  EXPECT_EQ(harness.engine().load().active, 2);
  EXPECT_EQ(harness.engine().load().queued, 3);
  EXPECT_EQ(harness.metrics().queue_depth.Value(), 3);
  harness.RunAll();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(sinks[i]->tokens(), Reference(GoldenInput(0, 8)).tokens);
  EXPECT_EQ(Rejections(harness, Rejected::kQueueFull), 2);
}

TEST(EngineAdmission, WithoutAQueueOnlyFreeSlotsCount) {
  EngineHarness harness(Small(1, 0));
  const auto first = harness.Submit(GoldenInput(0, 4));
  const auto second = harness.Submit(GoldenInput(0, 4));
  harness.RunAll();
  EXPECT_TRUE(first->finished());
  EXPECT_EQ(second->failed()->reason, "SLOTS_FULL");
  EXPECT_EQ(Rejections(harness, Rejected::kSlotsFull), 1);
}

TEST(EngineAdmission, PriorityThenArrival) {
  EngineHarness harness(Small(1, 10));
  harness.Submit(GoldenInput(0, 3));
  harness.Turn();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const int priority : {0, 5, 0, 5}) {
    GenerationInput input = GoldenInput(0, 3);
    input.priority = priority;
    sinks.push_back(harness.Submit(input));
  }
  std::vector<int> order;
  std::vector<bool> seen(4, false);
  for (int turn = 0; turn < 100; ++turn) {
    harness.Turn();
    for (int i = 0; i < 4; ++i) {
      if (seen[i] || !sinks[i]->started()) continue;
      seen[i] = true;
      order.push_back(i);
    }
  }
  EXPECT_EQ(order, (std::vector<int>{1, 3, 0, 2}));
}

TEST(EngineAdmission, ALiveRequestIdIsTakenAFinishedOneIsFree) {
  EngineHarness harness(Small(2, 2));
  GenerationInput input = GoldenInput(0, 5);
  input.request_id = std::string("same");
  const auto first = harness.Submit(input);
  const auto second = harness.Submit(input);
  harness.RunAll();
  EXPECT_TRUE(first->finished());
  EXPECT_EQ(second->failed()->status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(harness.Run(input)->finished());
}

TEST(EngineAdmission, DeadlinesAreKeptInEveryStage) {
  EngineHarness harness(Small(1, 5));
  GenerationInput input = GoldenInput(0, 1000);
  input.deadline = harness.clock().now();
  EXPECT_EQ(harness.Run(input)->failed()->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Rejections(harness, Rejected::kDeadline), 1);

  input.deadline = harness.clock().now() + absl::Seconds(5);
  const auto running = harness.Submit(input);
  const auto waiting = harness.Submit(input);
  harness.Turns(3);
  EXPECT_FALSE(running->tokens().empty());
  harness.clock().Advance(absl::Seconds(5));
  harness.Turn();
  EXPECT_EQ(running->failed()->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(waiting->failed()->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(waiting->started());
  EXPECT_EQ(harness.engine().load().slots_used, 0);
}

TEST(EngineAdmission, ADeadlineThatCannotBeMetIsRefused) {
  EngineHarness harness(Small(1, 5));
  harness.Run(GoldenInput(0, 4));  // measures
  GenerationInput input = GoldenInput(0, 4);
  input.deadline = harness.clock().now() + absl::Nanoseconds(1);
  const auto refused = harness.Run(input);
  EXPECT_EQ(refused->failed()->reason, "DEADLINE_TOO_SHORT");
  EXPECT_FALSE(refused->started());
}

TEST(EngineAdmission, LongPromptsAreOutOfRange) {
  EngineOptions options = Small(1, 5);
  options.max_prompt_tokens = 50;
  EngineHarness harness(options);
  EXPECT_EQ(harness.Run(GoldenInput(0, 4))->failed()->status.code(), absl::StatusCode::kOutOfRange);
  GenerationInput empty = GoldenInput(0, 4);
  empty.prompt.clear();
  EXPECT_EQ(harness.Run(empty)->failed()->status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(EngineAdmission, ASlowReaderIsPausedAndOthersGoOn) {
  EngineOptions options = Small(2, 5);
  options.unsent_limit = 20;
  EngineHarness harness(options);
  const auto slow = harness.Submit(GoldenInput(1, 90));
  slow->StopReading();
  const auto quick = harness.Submit(GoldenInput(2, 90));
  harness.Turns(60);
  EXPECT_EQ(slow->tokens().size(), 21u);  // the bound, and the round that crossed it
  EXPECT_GE(quick->tokens().size(), 59u);
  EXPECT_EQ(harness.metrics().slow_readers_paused.Value(), 1);
  slow->ReadAll();
  harness.RunAll();
  EXPECT_EQ(slow->tokens(), Reference(GoldenInput(1, 90)).tokens);
  EXPECT_EQ(quick->tokens(), Reference(GoldenInput(2, 90)).tokens);
}

TEST(EngineAdmission, APauseThatLastsIsCancelled) {
  EngineOptions options = Small(1, 5);
  options.unsent_limit = 20;
  EngineHarness harness(options);
  const auto slow = harness.Submit(GoldenInput(1, 90));
  slow->StopReading();
  harness.Turns(40);
  harness.clock().Advance(absl::Seconds(10));
  harness.Turn();
  EXPECT_EQ(slow->failed()->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(slow->failed()->reason, "SLOW_READER");
  EXPECT_EQ(harness.metrics().slow_readers_cancelled.Value(), 1);
  EXPECT_EQ(harness.engine().load().slots_used, 0);
}

TEST(EngineAdmission, DrainLetsRequestsFinishAndRefusesNewOnes) {  // C43
  EngineHarness harness(Small(1, 5));
  const auto running = harness.Submit(GoldenInput(0, 20));
  const auto waiting = harness.Submit(GoldenInput(1, 20));
  harness.Turns(2);
  int drained = 0;
  harness.engine().Drain(absl::Seconds(30), [&drained] { ++drained; });
  harness.Turn();
  const auto refused = harness.Submit(GoldenInput(2, 20));
  EXPECT_FALSE(harness.Open("late").ok());
  EXPECT_EQ(refused->failed()->status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(refused->failed()->retryable);
  EXPECT_FALSE(harness.engine().load().accepting);
  EXPECT_EQ(drained, 0);
  harness.RunAll();
  harness.Turn();
  EXPECT_EQ(running->tokens(), Reference(GoldenInput(0, 20)).tokens);
  EXPECT_EQ(waiting->tokens(), Reference(GoldenInput(1, 20)).tokens);
  EXPECT_EQ(drained, 1);
  EXPECT_EQ(Rejections(harness, Rejected::kDraining), 1);
}

TEST(EngineAdmission, DrainEndsWhatIsLeftRetryably) {
  EngineHarness harness(Small(1, 5));
  const auto running = harness.Submit(GoldenInput(0, 2000));
  const auto waiting = harness.Submit(GoldenInput(1, 20));
  harness.Turns(4);
  bool drained = false;
  harness.engine().Drain(absl::Seconds(2), [&drained] { drained = true; });
  harness.Turns(3);
  EXPECT_FALSE(running->over());
  harness.clock().Advance(absl::Seconds(2));
  harness.Turn();
  for (const auto& sink : {running, waiting}) {
    EXPECT_EQ(sink->failed()->status.code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(sink->failed()->retryable);
  }
  EXPECT_TRUE(drained);
  EXPECT_EQ(harness.engine().load().slots_used, 0);
}

TEST(EngineAdmission, AWedgedEngineIsSeenFromOutside) {  // C44
  EngineHarness harness(Small(1, 5));
  EXPECT_EQ(harness.engine().load().stalled, absl::ZeroDuration());
  harness.Submit(GoldenInput(0, 20));  // nobody takes it: the engine's thread hangs
  harness.clock().Advance(absl::Seconds(31));
  EXPECT_GE(harness.engine().load().stalled, absl::Seconds(31));
  harness.Turn();
  EXPECT_LT(harness.engine().load().stalled, absl::Seconds(1));
  harness.clock().Advance(absl::Seconds(31));
  EXPECT_GE(harness.engine().load().stalled, absl::Seconds(31));
  harness.RunAll();
  harness.clock().Advance(absl::Seconds(31));
  EXPECT_EQ(harness.engine().load().stalled, absl::ZeroDuration());
}

}  // namespace
}  // namespace tandem
