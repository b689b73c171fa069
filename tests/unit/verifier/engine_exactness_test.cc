#include <gtest/gtest.h>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

constexpr int kLength = 24;

GenerationInput MatrixInput(int golden, int kind) {
  GenerationInput input = GoldenInput(golden, kLength);
  input.sampling = SamplingKind(kind, 1000 + golden);
  return input;
}

// Reference replies of the matrix, [8][3].
const std::vector<std::vector<ReferenceReply>>& MatrixReplies() {
  static const auto* const replies = [] {
    auto* made = new std::vector<std::vector<ReferenceReply>>;
    for (int golden = 0; golden < 8; ++golden) {
      made->emplace_back();
      for (int kind = 0; kind < 3; ++kind) {
        made->back().push_back(Reference(MatrixInput(golden, kind)));
      }
    }
    return made;
  }();
  return *replies;
}

std::unique_ptr<EngineHarness> MtpHarness(int slots, int drafts) {
  EngineOptions options = EngineHarness::Options(slots, drafts);
  auto port = MakeMtpPort(slots, options.max_rows());
  return std::make_unique<EngineHarness>(std::move(options), std::move(port));
}

TEST(EngineExactness, GreedyTextIsTheGoldenText) {
  auto harness = MtpHarness(8, 3);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int golden = 0; golden < 8; ++golden)
    sinks.push_back(harness->Submit(GoldenInput(golden, 96)));
  harness->RunAll();
  for (int golden = 0; golden < 8; ++golden) {
    const GoldenCase& expected = Demo().cases[golden];
    const std::vector<int32_t> tokens = sinks[golden]->tokens();
    ASSERT_EQ(tokens.size(), 96u);
    for (int i = 0; i < 96; ++i) {
      if (tokens[i] == expected.greedy[i]) continue;
      // Another summation order may decide a near tie differently; the text goes its own way from
      // there.
      EXPECT_LT(expected.margins[i], 2e-3) << expected.task << " token " << i;
      break;
    }
  }
}

TEST(EngineExactness, AcceptancePerStepIsTheGoldenOne) {  // C23, C25, C26
  int compared_texts = 0;
  for (int golden = 0; golden < 8; ++golden) {
    auto harness = MtpHarness(1, 3);
    const auto sink = harness->Run(GoldenInput(golden, 96));
    const GoldenCase& expected = Demo().cases[golden];
    if (sink->tokens() != expected.greedy) continue;  // a near tie; see above
    std::vector<int> accepted;
    for (const ReplyRound& round : sink->rounds()) {
      if (round.drafted > 0) accepted.push_back(round.accepted);
    }
    // The last rounds draft less, because fewer tokens are left to emit.
    const size_t compared = expected.k3_accepted.size() - 3;
    ASSERT_GE(accepted.size(), compared) << expected.task;
    for (size_t i = 0; i < compared; ++i) {
      EXPECT_EQ(accepted[i], expected.k3_accepted[i]) << expected.task << " step " << i;
    }
    harness->CheckCounters();
    ++compared_texts;
  }
  EXPECT_GE(compared_texts, 6);
}

class DraftCounts : public testing::TestWithParam<int> {};

TEST_P(DraftCounts, TwentyFourAtOnceEqualOneByOneDecoding) {  // C01-C04, C28
  auto harness = MtpHarness(24, GetParam());
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 24; ++i) {
    sinks.push_back(harness->Submit(MatrixInput(i / 3, i % 3)));
    if (i % 4 == 3) harness->Turn();  // they come and go
  }
  harness->RunAll();
  for (int i = 0; i < 24; ++i) {
    EXPECT_EQ(sinks[i]->tokens(), MatrixReplies()[i / 3][i % 3].tokens) << "case " << i;
  }
  harness->CheckCounters();
}

TEST_P(DraftCounts, AloneEqualsOneByOneDecoding) {
  auto harness = MtpHarness(1, GetParam());
  for (int i = 0; i < 24; ++i) {
    const auto sink = harness->Run(MatrixInput(i / 3, i % 3));
    EXPECT_EQ(sink->tokens(), MatrixReplies()[i / 3][i % 3].tokens) << "case " << i;
  }
  harness->CheckCounters();
}

INSTANTIATE_TEST_SUITE_P(EngineExactness, DraftCounts, testing::Values(0, 1, 2, 3, 5, 8));

}  // namespace
}  // namespace tandem
