// Greedy choices that rounding could turn are counted.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

std::unique_ptr<DraftPort> Port(const EngineOptions& options, int drafts) {
  return drafts > 0 ? MakeMtpPort(options.max_sequences, options.max_rows()) : nullptr;
}

TEST(EngineNearTies, EqualTheStoredMarginsWhateverTheDrafts) {  // C06
  for (const int drafts : {0, 3}) {
    const EngineOptions options = EngineHarness::Options(1, drafts);
    EngineHarness harness(options, Port(options, drafts));
    double expected = 0;
    for (int i = 0; i < 8; ++i) {
      const GoldenCase& golden = Demo().cases[i];
      const auto sink = harness.Run(GoldenInput(i, 96));
      ASSERT_EQ(sink->tokens(), golden.greedy) << i;
      expected += std::count_if(golden.margins.begin(), golden.margins.end(),
                                [](double margin) { return margin < 2e-3; });
      EXPECT_EQ(harness.metrics().near_ties.Value(), expected) << i << " " << drafts;
    }
    EXPECT_GT(expected, 0);
  }
}

TEST(EngineNearTies, SampledChoicesAreNone) {
  EngineHarness harness(EngineHarness::Options(1, 0));
  GenerationInput input = GoldenInput(0, 40);
  // So cold that it follows the largest logit, and so flat that all logits are nearly equal.
  for (const float temperature : {1e-4f, 100.0f}) {
    input.sampling.temperature = temperature;
    harness.Run(input);
  }
  EXPECT_EQ(harness.metrics().near_ties.Value(), 0);
}

}  // namespace
}  // namespace tandem
