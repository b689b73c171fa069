// A reply that another server began goes on with exactly the next token.
#include <gtest/gtest.h>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

constexpr int kLength = 16;

class Resume : public testing::TestWithParam<int> {};

TEST_P(Resume, AtEverySplitPoint) {
  EngineOptions options = EngineHarness::Options(8, 3);
  options.prefill_chunk = 50;
  auto port = MakeMtpPort(8, options.max_rows());
  EngineHarness harness(options, std::move(port));
  for (int golden = 0; golden < 8; golden += 3) {
    GenerationInput input = GoldenInput(golden, kLength);
    input.sampling = SamplingKind(GetParam(), 77);
    input.sampling.top_logprobs = 0;
    const ReferenceReply whole = Reference(input);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int split = 0; split <= kLength; ++split) {
      GenerationInput rest = input;
      rest.emitted.assign(whole.tokens.begin(), whole.tokens.begin() + split);
      sinks.push_back(harness.Submit(rest));
    }
    harness.RunAll();
    for (int split = 0; split <= kLength; ++split) {
      const std::vector<int32_t> expected(whole.tokens.begin() + split, whole.tokens.end());
      EXPECT_EQ(sinks[split]->tokens(), expected) << "split " << split;
      EXPECT_EQ(sinks[split]->finished()->cause, FinishCause::kMaxTokens);
      EXPECT_EQ(sinks[split]->finished()->usage.generated, kLength - split);
      EXPECT_EQ(sinks[split]->started()->position, static_cast<int64_t>(input.prompt.size()));
      EXPECT_EQ(sinks[split]->finished()->position,
                static_cast<int64_t>(input.prompt.size()) + kLength);
      std::vector<float> logprobs;
      for (const ReplyRound& round : sinks[split]->rounds()) {
        for (const TokenLogprobEntry& entry : round.logprobs) logprobs.push_back(entry.logprob);
      }
      EXPECT_EQ(logprobs, std::vector<float>(whole.logprobs.begin() + split, whole.logprobs.end()));
    }
  }
  harness.CheckCounters();
}

INSTANTIATE_TEST_SUITE_P(Kinds, Resume, testing::Values(0, 1, 2));

TEST(EngineResume, MinTokensCountsWhatWasEmitted) {
  GenerationInput input = GoldenInput(0, 30);
  input.ignore_eos = false;
  input.bias_ids = {0};
  input.bias_values = {80};
  input.sampling.min_tokens = 9;
  const std::vector<int32_t> whole = Reference(input).tokens;
  ASSERT_EQ(whole.size(), 9u);
  for (int split = 0; split <= 9; ++split) {
    GenerationInput rest = input;
    rest.emitted.assign(whole.begin(), whole.begin() + split);
    EngineHarness harness(EngineHarness::Options(1, 0));
    const auto sink = harness.Run(rest);
    EXPECT_EQ(sink->tokens(), std::vector<int32_t>(whole.begin() + split, whole.end()));
    EXPECT_EQ(sink->finished()->cause, FinishCause::kStopToken);
  }
}

TEST(EngineResume, OnASessionItCanStillBeCut) {
  EngineOptions options = EngineHarness::Options(1, 3);
  auto port = MakeMtpPort(1, options.max_rows());
  EngineHarness harness(options, std::move(port));
  ASSERT_TRUE(harness.Open("s").ok());
  GenerationInput input = GoldenInput(2, kLength);
  input.sampling = SamplingKind(2, 4);
  input.session_id = std::string("s");
  input.request_id = std::string("turn");
  const std::vector<int32_t> whole = Reference(input).tokens;
  input.emitted.assign(whole.begin(), whole.begin() + 6);
  EXPECT_EQ(harness.Run(input)->tokens(), std::vector<int32_t>(whole.begin() + 6, whole.end()));
  // The cut counts the tokens of the whole reply, those of the other server included.
  ASSERT_TRUE(harness.Cancel("turn", 3).ok());
  std::vector<int32_t> history = input.prompt;
  history.insert(history.end(), whole.begin(), whole.begin() + 3);
  GenerationInput next = GoldenInput(5, 10);
  next.session_id = std::string("s");
  EXPECT_EQ(harness.Run(next)->tokens(), Reference(next, history).tokens);
}

}  // namespace
}  // namespace tandem
