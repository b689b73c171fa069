// Prompts in chunks beside decoding: same text, no starving, the drafter sees what it needs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/verifier/engine_harness.h"
#include "tests/unit/verifier/scripted_port.h"

namespace tandem {
namespace {

// All golden prompts behind one another: 700 tokens and more.
std::vector<int32_t> LongPrompt(size_t tokens) {
  std::vector<int32_t> prompt;
  while (prompt.size() < tokens) {
    for (const GoldenCase& golden : Demo().cases) {
      prompt.insert(prompt.end(), golden.ids.begin(), golden.ids.end());
    }
  }
  prompt.resize(tokens);
  return prompt;
}

GenerationInput LongInput(size_t tokens, int max_tokens) {
  GenerationInput input = GoldenInput(0, max_tokens);
  input.prompt = LongPrompt(tokens);
  return input;
}

class ChunkSizes : public testing::TestWithParam<int> {};

TEST_P(ChunkSizes, GiveTheSameText) {
  for (int kind = 0; kind < 3; ++kind) {
    GenerationInput input = LongInput(131, 20);
    input.sampling = SamplingKind(kind, 12);
    EngineOptions options = EngineHarness::Options(1, 3);
    options.prefill_chunk = GetParam();
    auto port = MakeMtpPort(1, options.max_rows());
    EXPECT_EQ(EngineHarness(options, std::move(port)).Run(input)->tokens(),
              Reference(input).tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(EnginePrefill, ChunkSizes,
                         testing::Values(1, 2, 3, 5, 16, 65, 130, 131, 256));

TEST(EnginePrefill, ALongPromptNeverStopsDecoding) {  // C46
  EngineOptions options = EngineHarness::Options(3, 3);
  options.prefill_chunk = 32;
  options.prefill_budget = 48;
  auto port = MakeMtpPort(3, options.max_rows());
  EngineHarness harness(options, std::move(port));
  const auto decoding = harness.Submit(GoldenInput(1, 96));
  harness.Turns(3);
  const auto first = harness.Submit(LongInput(500, 5));
  const auto second = harness.Submit(LongInput(300, 5));
  size_t before = decoding->tokens().size();
  int mixed = 0;
  while (!first->finished() && !decoding->finished()) {
    harness.Turn();
    if (decoding->finished()) break;
    EXPECT_GT(decoding->tokens().size(), before) << "every pass feeds the running stream";
    before = decoding->tokens().size();
    ++mixed;
  }
  EXPECT_GE(mixed, 10);
  harness.RunAll();
  EXPECT_EQ(decoding->tokens(), Reference(GoldenInput(1, 96)).tokens);
  EXPECT_EQ(first->tokens(), Reference(LongInput(500, 5)).tokens);
  EXPECT_EQ(second->tokens(), Reference(LongInput(300, 5)).tokens);
  EXPECT_GT(harness.metrics().steps[static_cast<size_t>(StepKind::kMixed)]->Value(), 5);
  EXPECT_EQ(harness.metrics().prompt_tokens_computed.Value(),
            800.0 + static_cast<double>(Demo().cases[1].ids.size()));
}

TEST(EnginePrefill, TheLast513PromptPositionsReachTheDrafter) {  // C38
  constexpr size_t kPrompt = 700;
  for (const int chunk : {64, 128, 256, 700}) {
    EngineOptions options = EngineHarness::Options(1, 3);
    options.prefill_chunk = options.prefill_budget = chunk;
    auto owned = std::make_unique<ScriptedDraftPort>(
        options.max_rows(), std::vector<std::vector<int32_t>>{}, WrongDrafts);
    const ScriptedDraftPort& port = *owned;
    EngineHarness harness(options, std::move(owned));
    const GenerationInput input = LongInput(kPrompt, 12);
    std::vector<int32_t> text = input.prompt;
    const std::vector<int32_t> reply = harness.Run(input)->tokens();
    text.insert(text.end(), reply.begin(), reply.end());
    // Contiguous from position 700 - 513 on, each with the token that followed it.
    int64_t position = static_cast<int64_t>(kPrompt) - 513;
    for (const ScriptedDraftPort::Record& record : port.records()) {
      EXPECT_EQ(record.position, position) << chunk;
      for (const int32_t token : record.next_tokens) EXPECT_EQ(token, text[++position]);
    }
    EXPECT_GT(position, static_cast<int64_t>(kPrompt));
  }
}

TEST(EnginePrefill, ChunkingChangesNoDraft) {  // C25, C38
  std::vector<std::vector<int>> accepted;
  for (const int chunk : {40, 256}) {
    EngineOptions options = EngineHarness::Options(1, 3);
    options.prefill_chunk = chunk;
    auto port = MakeMtpPort(1, options.max_rows());
    const auto sink = EngineHarness(options, std::move(port)).Run(LongInput(560, 40));
    accepted.emplace_back();
    for (const ReplyRound& round : sink->rounds()) accepted.back().push_back(round.accepted);
  }
  EXPECT_EQ(accepted[0], accepted[1]);
  EXPECT_GT(*std::max_element(accepted[0].begin(), accepted[0].end()), 0);
}

TEST(EnginePrefill, NothingIsPublishedWhereNoDraftIsWanted) {  // C47
  EngineOptions options = EngineHarness::Options(2, 0);
  options.schedule = *DraftSchedule::Parse("1:2,0:0");
  auto owned = std::make_unique<ScriptedDraftPort>(
      options.max_rows(), std::vector<std::vector<int32_t>>{}, WrongDrafts);
  const ScriptedDraftPort& port = *owned;
  EngineHarness harness(options, std::move(owned));
  GenerationInput off = GoldenInput(0, 10);
  off.max_drafts = 0;
  harness.Run(off);
  EXPECT_TRUE(port.records().empty());
  // Two lanes at once: beyond the schedule's limit.
  harness.Submit(GoldenInput(0, 10));
  harness.Submit(GoldenInput(0, 10));
  harness.RunAll();
  for (const ScriptedDraftPort::Record& record : port.records()) EXPECT_EQ(record.wanted, 0);
  const size_t before = port.records().size();
  harness.Run(GoldenInput(0, 10));
  EXPECT_GT(port.records().size(), before);
}

}  // namespace
}  // namespace tandem
