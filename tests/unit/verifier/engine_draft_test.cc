// Drafters of every quality: the text never changes, the counts are exact.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/verifier/engine_harness.h"
#include "tests/unit/verifier/scripted_port.h"

namespace tandem {
namespace {

constexpr int kLength = 25;

std::vector<int32_t> WholeText(const GenerationInput& input) {
  std::vector<int32_t> text = input.prompt;
  const std::vector<int32_t> reply = Reference(input).tokens;
  text.insert(text.end(), reply.begin(), reply.end());
  return text;
}

struct Scripted {
  Scripted(int slots, int drafts, const std::vector<GenerationInput>& inputs,
           ScriptedDraftPort::Script script) {
    EngineOptions options = EngineHarness::Options(slots, drafts);
    std::vector<std::vector<int32_t>> texts;
    for (const GenerationInput& input : inputs) texts.push_back(WholeText(input));
    auto owned = std::make_unique<ScriptedDraftPort>(options.max_rows(), std::move(texts),
                                                     std::move(script));
    port = owned.get();
    harness = std::make_unique<EngineHarness>(std::move(options), std::move(owned));
  }
  double Undrafted(enum Undrafted reason) {
    return harness->metrics().undrafted_rounds[static_cast<size_t>(reason)]->Value();
  }
  ScriptedDraftPort* port = nullptr;
  std::unique_ptr<EngineHarness> harness;
};

TEST(EngineDrafts, EveryAcceptPatternKeepsTheTextAndCountsExactly) {  // C12, C22, C27
  const GenerationInput input = GoldenInput(1, kLength);
  for (const int drafts : {1, 2, 3, 8}) {
    for (int right = 0; right <= drafts; ++right) {
      Scripted scripted(1, drafts, {input}, RightFor(right));
      const auto sink = scripted.harness->Run(input);
      EXPECT_EQ(sink->tokens(), Reference(input).tokens);
      // The first token comes with the prompt; then each round emits its accepted drafts and one.
      ReplyUsage expected;
      expected.rounds = 1;
      int left = kLength - 1;
      while (left > 0) {
        const int drafted = std::min(drafts, left - 1);
        const int accepted = std::min(right, drafted);
        expected.rounds += 1;
        expected.draft_rounds += drafted > 0;
        expected.drafted += drafted;
        expected.accepted += accepted;
        left -= 1 + accepted;
      }
      const ReplyUsage usage = sink->finished()->usage;
      EXPECT_EQ(usage.generated, kLength);
      EXPECT_EQ(usage.rounds, expected.rounds) << drafts << " " << right;
      EXPECT_EQ(usage.draft_rounds, expected.draft_rounds);
      EXPECT_EQ(usage.drafted, expected.drafted);
      EXPECT_EQ(usage.accepted, expected.accepted);
      EXPECT_EQ(usage.retained, expected.accepted);
      scripted.harness->CheckCounters();
    }
  }
}

TEST(EngineDrafts, AlternatingDraftsKeepTheText) {  // C28
  for (int kind = 0; kind < 3; ++kind) {
    GenerationInput input = GoldenInput(2, 40);
    input.sampling = SamplingKind(kind, 5);
    Scripted scripted(1, 3, {input}, [](const ScriptedDraftPort::Question& question) {
      return question.round % 2 == 0 ? RightFor(question.round % 4)(question)
                                     : std::vector<int32_t>{};
    });
    EXPECT_EQ(scripted.harness->Run(input)->tokens(), Reference(input).tokens) << kind;
    EXPECT_GT(scripted.Undrafted(Undrafted::kWarmUp), 1);
    scripted.harness->CheckCounters();
  }
}

TEST(EngineDrafts, DraftsChangeWithTheBatch) {  // C28: K changing as the batch grows
  std::vector<GenerationInput> inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(GoldenInput(i, 60 - 8 * i));
  EngineOptions options = EngineHarness::Options(6, 0);
  options.schedule = *DraftSchedule::Parse("1:8,2:5,4:1,0:0");
  std::vector<std::vector<int32_t>> texts;
  for (const GenerationInput& input : inputs) texts.push_back(WholeText(input));
  auto port = std::make_unique<ScriptedDraftPort>(options.max_rows(), texts, RightDrafts);
  EngineHarness harness(options, std::move(port));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const GenerationInput& input : inputs) {
    sinks.push_back(harness.Submit(input));
    harness.Turn();
  }
  harness.RunAll();
  for (int i = 0; i < 6; ++i) EXPECT_EQ(sinks[i]->tokens(), Reference(inputs[i]).tokens) << i;
  const auto reason = static_cast<size_t>(Undrafted::kBatchSize);
  EXPECT_GT(harness.metrics().undrafted_rounds[reason]->Value(), 0);
  harness.CheckCounters();
}

TEST(EngineDrafts, GarbageIsOnlySlow) {  // C29
  const GenerationInput input = GoldenInput(3, kLength);
  uint32_t state = 7;
  Scripted scripted(1, 8, {input}, [&state](const ScriptedDraftPort::Question& question) {
    std::vector<int32_t> drafts(state % (question.wanted + 1));
    for (int32_t& draft : drafts)
      draft = static_cast<int32_t>((state = state * 1664525u + 1013904223u) >> 20);
    state = state * 1664525u + 1013904223u;
    return drafts;
  });
  EXPECT_EQ(scripted.harness->Run(input)->tokens(), Reference(input).tokens);
  scripted.harness->CheckCounters();
}

TEST(EngineDrafts, ADyingDrafterCostsSpeedOnly) {  // C45
  const GenerationInput input = GoldenInput(4, kLength);
  Scripted scripted(1, 3, {input}, RightFor(1));
  scripted.port->attached = [](int rounds) { return rounds < 4; };
  EXPECT_EQ(scripted.harness->Run(input)->tokens(), Reference(input).tokens);
  EXPECT_GT(scripted.Undrafted(Undrafted::kNoDrafter), 5);
  scripted.harness->CheckCounters();
}

TEST(EngineDrafts, LateRoundsRunWithoutDraftsAndAreCounted) {
  const GenerationInput input = GoldenInput(5, kLength);
  Scripted scripted(1, 3, {input}, RightFor(2));
  scripted.port->outcome = [](int rounds) {
    return rounds % 3 == 0 ? DraftOutcome::kLate
                           : (rounds % 3 == 1 ? DraftOutcome::kInvalid : DraftOutcome::kDrafted);
  };
  EXPECT_EQ(scripted.harness->Run(input)->tokens(), Reference(input).tokens);
  EXPECT_GT(scripted.Undrafted(Undrafted::kLate), 0);
  EXPECT_GT(scripted.Undrafted(Undrafted::kNoDrafter), 0);
  scripted.harness->CheckCounters();
}

TEST(EngineDrafts, MaxDraftsIsPerRequest) {  // C48
  std::vector<GenerationInput> inputs;
  for (int i = 0; i < 4; ++i) inputs.push_back(GoldenInput(i, kLength));
  inputs[0].max_drafts = 0;
  inputs[1].max_drafts = 1;
  inputs[2].max_drafts = 3;
  Scripted scripted(4, 5, inputs, RightDrafts);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const GenerationInput& input : inputs) sinks.push_back(scripted.harness->Submit(input));
  scripted.harness->RunAll();
  const int most[] = {0, 1, 3, 5};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sinks[i]->tokens(), Reference(inputs[i]).tokens);
    int seen = 0;
    for (const ReplyRound& round : sinks[i]->rounds()) seen = std::max(seen, round.drafted);
    EXPECT_EQ(seen, most[i]) << i;
  }
  EXPECT_GT(scripted.Undrafted(Undrafted::kRequestOff), 0);
}

TEST(EngineDrafts, ADraftedEndTokenEndsNothing) {  // C11
  GenerationInput input = GoldenInput(0, kLength);
  input.ignore_eos = false;
  const ReferenceReply expected = Reference(input);
  ASSERT_EQ(expected.tokens.size(), static_cast<size_t>(kLength));
  Scripted scripted(1, 3, {input}, [](const ScriptedDraftPort::Question& question) {
    return std::vector<int32_t>(question.wanted, 0);
  });
  const auto sink = scripted.harness->Run(input);
  EXPECT_EQ(sink->tokens(), expected.tokens);
  EXPECT_EQ(sink->finished()->cause, FinishCause::kMaxTokens);
  EXPECT_EQ(sink->finished()->usage.accepted, 0);
}

TEST(EngineDrafts, TwoRunsAcceptEqually) {  // C06
  std::vector<int64_t> accepted;
  for (int run = 0; run < 2; ++run) {
    EngineOptions options = EngineHarness::Options(2, 3);
    auto port = MakeMtpPort(2, options.max_rows());
    EngineHarness harness(options, std::move(port));
    const auto sink = harness.Submit(GoldenInput(0, 40));
    if (run == 1) harness.Submit(GoldenInput(7, 33));  // company changes nothing
    harness.RunAll();
    accepted.push_back(sink->finished()->usage.accepted);
  }
  EXPECT_GT(accepted[0], 0);
  EXPECT_EQ(accepted[0], accepted[1]);
}

}  // namespace
}  // namespace tandem
