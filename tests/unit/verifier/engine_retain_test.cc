// Cancel with retain_tokens: the reply ends after so many tokens and the session holds exactly
// them.
#include <gtest/gtest.h>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

std::unique_ptr<EngineHarness> MtpHarness(int slots, int drafts) {
  EngineOptions options = EngineHarness::Options(slots, drafts);
  auto port = MakeMtpPort(slots, options.max_rows());
  return std::make_unique<EngineHarness>(options, std::move(port));
}

GenerationInput OnSession(int golden, int max_tokens) {
  GenerationInput input = GoldenInput(golden, max_tokens);
  input.sampling = SamplingKind(2, 8);
  input.session_id = std::string("s");
  input.request_id = std::string("turn");
  return input;
}

std::vector<int32_t> Held(const GenerationInput& input, const std::vector<int32_t>& reply,
                          int retain) {
  std::vector<int32_t> held = input.prompt;
  held.insert(held.end(), reply.begin(), reply.begin() + retain);
  return held;
}

void ExpectNextTurnFrom(EngineHarness& harness, const std::vector<int32_t>& history) {
  EXPECT_EQ(harness.Describe("s")->position, static_cast<int64_t>(history.size()));
  GenerationInput next = OnSession(6, 10);
  next.request_id = std::string("next");
  const auto sink = harness.Run(next);
  ASSERT_TRUE(sink->finished()) << sink->failed()->status;
  EXPECT_EQ(sink->tokens(), Reference(next, history).tokens);
}

TEST(EngineRetain, InMidReplyAtEveryLength) {
  for (int retain = 0; retain <= 9; ++retain) {
    auto harness = MtpHarness(1, 3);
    ASSERT_TRUE(harness->Open("s").ok());
    const GenerationInput input = OnSession(1, 60);
    const auto sink = harness->Submit(input);
    while (sink->tokens().size() < 9) harness->Turn();
    const std::vector<int32_t> said = sink->tokens();
    ASSERT_TRUE(harness->Cancel("turn", retain).ok());
    ASSERT_TRUE(sink->finished());
    EXPECT_EQ(sink->finished()->cause, FinishCause::kStopText);
    EXPECT_EQ(sink->finished()->usage.generated, retain);
    EXPECT_LE(sink->finished()->usage.retained, retain);
    EXPECT_EQ(sink->finished()->position, static_cast<int64_t>(input.prompt.size()) + retain);
    ExpectNextTurnFrom(*harness, Held(input, said, retain));
  }
}

TEST(EngineRetain, AllThatWasSaid) {
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  const GenerationInput input = OnSession(2, 60);
  const auto sink = harness->Submit(input);
  harness->Turns(6);
  const std::vector<int32_t> said = sink->tokens();
  const int all = static_cast<int>(said.size());
  EXPECT_EQ(harness->Cancel("turn", all + 100).code(), absl::StatusCode::kOutOfRange);
  ASSERT_FALSE(sink->over());
  const std::vector<int32_t> now = sink->tokens();
  ASSERT_TRUE(harness->Cancel("turn", static_cast<int64_t>(now.size())).ok());
  ExpectNextTurnFrom(*harness, Held(input, now, static_cast<int>(now.size())));
}

TEST(EngineRetain, AfterTheRequestHasFinished) {
  for (const int retain : {0, 1, 5, 19, 20}) {
    auto harness = MtpHarness(1, 3);
    ASSERT_TRUE(harness->Open("s").ok());
    const GenerationInput input = OnSession(3, 20);
    const auto sink = harness->Run(input);
    ASSERT_TRUE(harness->Cancel("turn", retain).ok());
    EXPECT_EQ(harness->Cancel("turn", 21).code(), absl::StatusCode::kOutOfRange);
    ExpectNextTurnFrom(*harness, Held(input, sink->tokens(), retain));
    // The session has gone on: the old request can be cut no more, which is not an error.
    EXPECT_TRUE(harness->Cancel("turn", 0).ok());
  }
}

TEST(EngineRetain, AfterTheSessionWasSpilled) {
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  const GenerationInput input = OnSession(3, 20);
  const auto sink = harness->Run(input);
  harness->Run(GoldenInput(0, 3));  // takes the only slot
  EXPECT_FALSE(harness->Describe("s")->resident);
  ASSERT_TRUE(harness->Cancel("turn", 7).ok());
  ExpectNextTurnFrom(*harness, Held(input, sink->tokens(), 7));
}

TEST(EngineRetain, EmptyContinuationAfterwards) {
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  const GenerationInput input = OnSession(3, 20);
  const std::vector<int32_t> said = harness->Run(input)->tokens();
  ASSERT_TRUE(harness->Cancel("turn", 6).ok());
  GenerationInput next = OnSession(0, 14);
  next.prompt.clear();
  next.request_id = std::string("next");
  const auto sink = harness->Run(next);
  ASSERT_TRUE(sink->finished()) << sink->failed()->status;
  EXPECT_EQ(sink->tokens(), Reference(next, Held(input, said, 6)).tokens);
}

TEST(EngineRetain, WithoutSessionTheReplyJustEnds) {
  auto harness = MtpHarness(1, 3);
  GenerationInput input = GoldenInput(1, 60);
  input.request_id = std::string("one");
  const auto sink = harness->Submit(input);
  while (sink->tokens().size() < 5) harness->Turn();
  ASSERT_TRUE(harness->Cancel("one", 4).ok());
  EXPECT_EQ(sink->finished()->cause, FinishCause::kStopText);
  EXPECT_EQ(sink->finished()->usage.generated, 4);
  EXPECT_EQ(harness->engine().load().slots_used, 0);
  EXPECT_TRUE(harness->Cancel("one").ok());
  EXPECT_TRUE(harness->Cancel("one", 2).ok());
  EXPECT_EQ(harness->Cancel("two").code(), absl::StatusCode::kNotFound);
}

TEST(EngineRetain, WhileItWaits) {
  auto harness = MtpHarness(1, 3);
  ASSERT_TRUE(harness->Open("s").ok());
  harness->Submit(GoldenInput(0, 30));
  harness->Turn();
  const GenerationInput input = OnSession(1, 60);
  const auto sink = harness->Submit(input);
  harness->Turn();
  EXPECT_EQ(harness->Cancel("turn", 1).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(harness->Cancel("turn", 0).ok());
  EXPECT_EQ(sink->finished()->usage.generated, 0);
  harness->RunAll();
  ExpectNextTurnFrom(*harness, input.prompt);
}

}  // namespace
}  // namespace tandem
