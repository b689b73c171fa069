// Sessions: what a turn says depends on the tokens that the session holds, never on how they came.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

std::unique_ptr<EngineHarness> MtpHarness(int slots, int drafts) {
  EngineOptions options = EngineHarness::Options(slots, drafts);
  options.prefill_chunk = 32;
  auto port = MakeMtpPort(slots, options.max_rows());
  return std::make_unique<EngineHarness>(options, std::move(port));
}

std::vector<int32_t> Slice(const std::vector<int32_t>& ids, size_t begin, size_t count) {
  return {ids.begin() + begin, ids.begin() + std::min(begin + count, ids.size())};
}

// A turn on session `id`: `count` tokens of golden case `golden` from `begin` on.
GenerationInput Turn(const std::string& id, int golden, size_t begin, size_t count, int kind) {
  GenerationInput input = GoldenInput(golden, 14);
  input.prompt = Slice(Demo().cases[golden].ids, begin, count);
  input.sampling = SamplingKind(kind, 31);
  input.session_id = id;
  return input;
}

void Extend(std::vector<int32_t>& history, const GenerationInput& input,
            const std::vector<int32_t>& reply) {
  history.insert(history.end(), input.prompt.begin(), input.prompt.end());
  history.insert(history.end(), reply.begin(), reply.end());
}

TEST(EngineSessions, ContinuingEqualsResending) {
  for (const int drafts : {0, 3}) {
    for (int kind = 0; kind < 3; ++kind) {
      auto harness = MtpHarness(2, drafts);
      ASSERT_TRUE(harness->Open("chat").ok());
      std::vector<int32_t> history;
      for (int turn = 0; turn < 4; ++turn) {
        GenerationInput input = Turn("chat", turn, 0, 20 + turn, kind);
        input.expected_position = static_cast<int64_t>(history.size());
        const auto sink = harness->Run(input);
        ASSERT_TRUE(sink->finished()) << sink->failed()->status;
        EXPECT_EQ(sink->tokens(), Reference(input, history).tokens) << turn;
        // Everything but the unread last token came from the state.
        EXPECT_EQ(sink->started()->cached_prompt_tokens,
                  std::max<int64_t>(0, static_cast<int64_t>(history.size()) - 1));
        Extend(history, input, sink->tokens());
        EXPECT_EQ(harness->Describe("chat")->position, static_cast<int64_t>(history.size()));
      }
      harness->CheckCounters();
    }
  }
}

TEST(EngineSessions, ATurnAfterAStopInsideABlockEqualsPlainDecoding) {  // C10
  const GenerationInput first = Turn("s", 1, 0, 1000, 0);
  const std::vector<int32_t> text = Reference(first).tokens;
  for (int at = 0; at < 8; ++at) {
    if (std::find(text.begin(), text.begin() + at, text[at]) != text.begin() + at) continue;
    for (const bool include : {false, true}) {
      auto harness = MtpHarness(1, 5);
      ASSERT_TRUE(harness->Open("s").ok());
      GenerationInput input = first;
      input.stop_ids = {text[at]};
      input.include_stop = include;
      std::vector<int32_t> history;
      Extend(history, input, harness->Run(input)->tokens());
      EXPECT_EQ(history.size(), input.prompt.size() + at + include);
      const GenerationInput next = Turn("s", 2, 0, 12, 2);
      EXPECT_EQ(harness->Run(next)->tokens(), Reference(next, history).tokens) << at;
    }
  }
}

TEST(EngineSessions, EmptyInputContinuesWithTheUnreadToken) {  // C35
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  std::vector<int32_t> history;
  for (int turn = 0; turn < 3; ++turn) {
    GenerationInput input = Turn("s", 3, 0, turn == 0 ? 30 : 0, 1);
    const auto sink = harness->Run(input);
    ASSERT_TRUE(sink->finished()) << sink->failed()->status;
    EXPECT_EQ(sink->tokens(), Reference(input, history).tokens) << turn;
    Extend(history, input, sink->tokens());
  }
  // One reply in three parts is the reply in one part.
  GenerationInput whole = Turn("", 3, 0, 30, 1);
  whole.max_tokens = 42;
  std::vector<int32_t> expected = whole.prompt;
  const std::vector<int32_t> reply = Reference(whole).tokens;
  expected.insert(expected.end(), reply.begin(), reply.end());
  EXPECT_EQ(history, expected);
}

TEST(EngineSessions, RefusalsNameTheReason) {
  auto harness = MtpHarness(2, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  EXPECT_EQ(harness->Open("s").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(harness->Describe("t").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(harness->Close("t").code(), absl::StatusCode::kNotFound);
  const auto unknown = harness->Run(Turn("t", 0, 0, 5, 0));
  EXPECT_EQ(unknown->failed()->status.code(), absl::StatusCode::kNotFound);
  const auto empty = harness->Run(Turn("s", 0, 0, 0, 0));
  EXPECT_EQ(empty->failed()->status.code(), absl::StatusCode::kInvalidArgument);
  GenerationInput elsewhere = Turn("s", 0, 0, 5, 0);
  elsewhere.expected_position = 7;
  const auto differs = harness->Run(elsewhere);
  EXPECT_EQ(differs->failed()->status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(differs->failed()->reason, "POSITION_DIFFERS");
  const auto running = harness->Submit(Turn("s", 0, 0, 40, 0));
  const auto busy = harness->Submit(Turn("s", 0, 0, 5, 0));
  harness->RunAll();
  EXPECT_TRUE(running->finished());
  EXPECT_EQ(busy->failed()->status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(busy->failed()->reason, "SESSION_BUSY");
}

TEST(EngineSessions, ACancelledTurnLeavesNoTrace) {  // C42
  for (const int turns : {0, 1, 2, 3, 6}) {          // queued, prefill, decode
    auto harness = MtpHarness(1, 3);
    ASSERT_TRUE(harness->Open("s").ok());
    std::vector<int32_t> history;
    const GenerationInput first = Turn("s", 0, 0, 40, 2);
    Extend(history, first, harness->Run(first)->tokens());
    const auto sink = harness->Submit(Turn("s", 5, 0, 70, 2));
    harness->Turns(turns);
    harness->engine().Drop(harness->last_handle());
    harness->Turn();
    EXPECT_EQ(sink->failed()->status.code(), absl::StatusCode::kCancelled);
    const SessionInfo info = *harness->Describe("s");
    EXPECT_EQ(info.position, static_cast<int64_t>(history.size())) << turns;
    EXPECT_FALSE(info.busy);
    const GenerationInput next = Turn("s", 2, 0, 15, 2);
    EXPECT_EQ(harness->Run(next)->tokens(), Reference(next, history).tokens) << turns;
  }
}

TEST(EngineSessions, TheFirstTurnCancelledLeavesAnEmptySession) {
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  harness->Submit(Turn("s", 5, 0, 70, 2));
  harness->Turns(4);
  harness->engine().Drop(harness->last_handle());
  harness->Turn();
  EXPECT_EQ(harness->engine().load().slots_used, 0);
  const GenerationInput next = Turn("s", 2, 0, 15, 2);
  EXPECT_EQ(harness->Run(next)->tokens(), Reference(next).tokens);
}

TEST(EngineSessions, RoundRobinOverOneSlotSpillsExactly) {  // C37
  auto harness = MtpHarness(1, 3);
  std::vector<int32_t> histories[3];
  for (int round = 0; round < 3; ++round) {
    for (int s = 0; s < 3; ++s) {
      const std::string id = absl::StrCat("s", s);
      if (round == 0) {
        ASSERT_TRUE(harness->Open(id).ok());
      }
      const GenerationInput input = Turn(id, s + round, 0, 18, 2);
      const auto sink = harness->Run(input);
      EXPECT_EQ(sink->tokens(), Reference(input, histories[s]).tokens) << id << " " << round;
      Extend(histories[s], input, sink->tokens());
      EXPECT_TRUE(harness->Describe(id)->resident);
      EXPECT_EQ(harness->engine().load().slots_used, 1);
    }
  }
  EXPECT_FALSE(harness->Describe("s0")->resident);
  EXPECT_FALSE(harness->Describe("s1")->resident);
}

TEST(EngineSessions, IdleSessionsExpire) {
  auto harness = MtpHarness(2, 0);
  ASSERT_TRUE(harness->Open("short", absl::Seconds(10)).ok());
  ASSERT_TRUE(harness->Open("long", absl::Seconds(100)).ok());
  harness->Run(Turn("short", 0, 0, 10, 0));
  harness->clock().Advance(absl::Seconds(9));
  EXPECT_TRUE(harness->Describe("short").ok());
  harness->clock().Advance(absl::Seconds(1));
  harness->Turn();
  EXPECT_EQ(harness->Describe("short").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(harness->Describe("long").ok());
  EXPECT_EQ(harness->engine().load().slots_used, 0);
  EXPECT_EQ(harness->metrics().SessionOperations("evict", "OK").Value(), 1);
}

TEST(EngineSessions, ClosingCancelsTheRunningTurn) {
  auto harness = MtpHarness(2, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  const auto sink = harness->Submit(Turn("s", 0, 0, 40, 0));
  harness->Turns(3);
  EXPECT_TRUE(harness->Close("s").ok());
  EXPECT_EQ(sink->failed()->reason, "SESSION_CLOSED");
  EXPECT_EQ(harness->engine().load().slots_used, 0);
  EXPECT_EQ(harness->engine().load().sessions, 0);
}

TEST(EngineSessions, TheLimitOfSessionsIsRefusedAtTheDoor) {
  EngineOptions options = EngineHarness::Options(1, 0);
  options.max_sessions = 2;
  EngineHarness harness(options);
  EXPECT_TRUE(harness.Open("").ok());
  EXPECT_TRUE(harness.Open("").ok());
  EXPECT_EQ(harness.engine().load().sessions, harness.engine().load().max_sessions);
  EXPECT_EQ(harness.Open("").status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tandem
