// Where a reply ends: the first terminal condition in token order, whatever was verified beyond it.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/unit/verifier/engine_harness.h"
#include "tests/unit/verifier/scripted_port.h"

namespace tandem {
namespace {

// A harness whose drafter knows the greedy text of golden case `index`.
std::unique_ptr<EngineHarness> Perfect(int index, int drafts) {
  EngineOptions options = EngineHarness::Options(1, drafts);
  std::vector<int32_t> text = Demo().cases[index].ids;
  const std::vector<int32_t> reply = Reference(GoldenInput(index, 40)).tokens;
  text.insert(text.end(), reply.begin(), reply.end());
  auto port = std::make_unique<ScriptedDraftPort>(
      options.max_rows(), std::vector<std::vector<int32_t>>{text}, RightDrafts);
  return std::make_unique<EngineHarness>(options, std::move(port));
}

void ExpectConsistent(const RecordingSink& sink, const GenerationInput& input) {
  const ReplyFinished finished = *sink.finished();
  size_t tokens = 0;
  size_t logprobs = 0;
  int64_t retained = 0;
  for (const ReplyRound& round : sink.rounds()) {
    tokens += round.tokens.size();
    logprobs += round.logprobs.size();
    retained += round.accepted;
    EXPECT_LE(round.accepted, round.drafted);
  }
  EXPECT_EQ(finished.usage.generated, static_cast<int64_t>(tokens));
  EXPECT_EQ(finished.usage.retained, retained);
  EXPECT_LE(finished.usage.retained, finished.usage.accepted);
  EXPECT_LE(finished.usage.accepted, finished.usage.drafted);
  EXPECT_EQ(finished.position, static_cast<int64_t>(input.prompt.size() + tokens));
  EXPECT_EQ(logprobs, input.sampling.top_logprobs >= 0 ? tokens : 0);
}

TEST(EngineStops, AStopTokenEndsAtEveryOffsetOfABlock) {  // C07, C08, C09, C10, C13
  const std::vector<int32_t> text = Reference(GoldenInput(1, 40)).tokens;
  int checked = 0;
  for (int at = 1; at < 12; ++at) {
    if (std::find(text.begin(), text.begin() + at, text[at]) != text.begin() + at) continue;
    for (const bool include : {false, true}) {
      GenerationInput input = GoldenInput(1, 40);
      input.stop_ids = {text[at]};
      input.include_stop = include;
      input.sampling.top_logprobs = 2;
      auto harness = Perfect(1, 4);
      const auto sink = harness->Run(input);
      const std::vector<int32_t> expected(text.begin(), text.begin() + at + include);
      EXPECT_EQ(sink->tokens(), expected) << at;
      EXPECT_EQ(sink->finished()->cause, FinishCause::kStopToken);
      EXPECT_EQ(sink->finished()->stop_token, text[at]);
      ExpectConsistent(*sink, input);
      harness->CheckCounters();
      ++checked;
    }
  }
  EXPECT_GE(checked, 10);
}

TEST(EngineStops, AStopAsFirstTokenGivesAnEmptyReply) {
  const std::vector<int32_t> text = Reference(GoldenInput(1, 2)).tokens;
  GenerationInput input = GoldenInput(1, 40);
  input.stop_ids = {text[0]};
  auto harness = Perfect(1, 3);
  const auto sink = harness->Run(input);
  EXPECT_TRUE(sink->tokens().empty());
  EXPECT_EQ(sink->finished()->cause, FinishCause::kStopToken);
  ExpectConsistent(*sink, input);
  harness->CheckCounters();
}

TEST(EngineStops, TheLimitIsNeverOvershot) {  // C08
  const std::vector<int32_t> text = Reference(GoldenInput(1, 40)).tokens;
  auto harness = Perfect(1, 4);
  for (int limit = 1; limit <= 12; ++limit) {
    const GenerationInput input = GoldenInput(1, limit);
    const auto sink = harness->Run(input);
    EXPECT_EQ(sink->tokens(), std::vector<int32_t>(text.begin(), text.begin() + limit));
    EXPECT_EQ(sink->finished()->cause, FinishCause::kMaxTokens);
    ExpectConsistent(*sink, input);
  }
  harness->CheckCounters();
}

TEST(EngineStops, AStopBeforeTheLimitOfTheSameBlockWins) {  // C08
  const std::vector<int32_t> text = Reference(GoldenInput(1, 40)).tokens;
  for (int at = 2; at < 6; ++at) {
    if (std::find(text.begin(), text.begin() + at, text[at]) != text.begin() + at) continue;
    GenerationInput input = GoldenInput(1, at + 1);
    input.stop_ids = {text[at]};
    const auto sink = Perfect(1, 8)->Run(input);
    EXPECT_EQ(sink->tokens(), std::vector<int32_t>(text.begin(), text.begin() + at));
    EXPECT_EQ(sink->finished()->cause, FinishCause::kStopToken);
  }
}

TEST(EngineStops, MinTokensHoldsTheEndBackExactly) {  // C14
  for (int least = 1; least <= 10; ++least) {
    GenerationInput input = GoldenInput(0, 30);
    input.ignore_eos = false;
    input.bias_ids = {0, 77};
    input.bias_values = {80, 80};  // nothing but the two end tokens, as soon as they may come
    input.stop_ids = {77};
    input.sampling.min_tokens = least;
    const std::vector<int32_t> expected = Reference(input).tokens;
    for (const int drafts : {0, 1, 2, 3}) {
      EngineOptions options = EngineHarness::Options(1, drafts);
      auto port = MakeMtpPort(1, options.max_rows());
      const auto sink = EngineHarness(options, std::move(port)).Run(input);
      EXPECT_EQ(sink->tokens().size(), static_cast<size_t>(least)) << drafts;
      EXPECT_EQ(sink->tokens(), expected);
      EXPECT_EQ(sink->finished()->cause, FinishCause::kStopToken);
    }
  }
}

TEST(EngineStops, IgnoreEosGoesOnThroughTheEndToken) {
  GenerationInput input = GoldenInput(0, 7);
  input.bias_ids = {0};
  input.bias_values = {80};
  const auto sink = Perfect(0, 3)->Run(input);
  EXPECT_EQ(sink->tokens(), std::vector<int32_t>(7, 0));
  EXPECT_EQ(sink->finished()->cause, FinishCause::kMaxTokens);
}

TEST(EngineStops, ABannedTokenIsNeverChosenThoughDrafted) {  // C16
  const std::vector<int32_t> text = Reference(GoldenInput(1, 40)).tokens;
  for (const int depth : {0, 1, 2, 3}) {
    GenerationInput input = GoldenInput(1, 20);
    input.bias_ids = {text[1 + depth]};
    input.bias_values = {-std::numeric_limits<float>::infinity()};
    const auto sink = Perfect(1, 3)->Run(input);
    const std::vector<int32_t> tokens = sink->tokens();
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), text[1 + depth]), 0);
    EXPECT_EQ(tokens, Reference(input).tokens);
  }
}

TEST(EngineStops, LogprobsAreThoseOfOneByOneDecoding) {  // C17
  for (int kind = 0; kind < 3; ++kind) {
    GenerationInput input = GoldenInput(4, 30);
    input.sampling = SamplingKind(kind, 99);
    input.sampling.top_logprobs = 5;
    EngineOptions options = EngineHarness::Options(1, 3);
    auto port = MakeMtpPort(1, options.max_rows());
    const auto sink = EngineHarness(options, std::move(port)).Run(input);
    const ReferenceReply expected = Reference(input);
    EXPECT_EQ(sink->tokens(), expected.tokens);
    std::vector<float> logprobs;
    for (const ReplyRound& round : sink->rounds()) {
      for (const TokenLogprobEntry& entry : round.logprobs) {
        logprobs.push_back(entry.logprob);
        ASSERT_EQ(entry.top.size(), 5u);
        EXPECT_LE(entry.logprob, entry.top[0].logprob);
        for (int t = 1; t < 5; ++t) EXPECT_GE(entry.top[t - 1].logprob, entry.top[t].logprob);
      }
    }
    EXPECT_EQ(logprobs, expected.logprobs);
  }
}

TEST(EngineStops, IdsWithoutTextAreNeverChosen) {
  EngineOptions options = EngineHarness::Options(1, 3);
  options.usable_vocab = 300;
  EngineHarness harness(options, MakeMtpPort(1, options.max_rows()));
  GenerationInput input = GoldenInput(0, 40);
  input.sampling.temperature = 1;
  for (const int32_t token : harness.Run(input)->tokens()) EXPECT_LT(token, 300);
}

}  // namespace
}  // namespace tandem
