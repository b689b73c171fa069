#include "kernels/accept/accept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/accept/philox.h"
#include "tests/kernels/accept_fixture.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
const Sampling kGreedy = {.temperature = 0.0f};

// The known answers of Random123 (kat_vectors, philox4x32 with 10 rounds).
TEST(PhiloxTest, PublishedVectors) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(
      Philox4x32({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

class AcceptTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
};

// C05: ties go to the lowest id, whatever path the choice takes.
TEST_F(AcceptTest, GreedyTieGoesToLowestId) {
  const std::vector<float> logits = {1, 7, 3, 7, 7, -2};
  EXPECT_EQ(AcceptFixture(6, 1).Choose(*backend_, kGreedy, logits), 1);
  Sampling with_penalty = kGreedy;
  with_penalty.presence_penalty = 0.5f;
  EXPECT_EQ(AcceptFixture(6, 1).Choose(*backend_, with_penalty, logits), 1);
  Sampling top_one = {.top_k = 1};
  EXPECT_EQ(AcceptFixture(6, 1).Choose(*backend_, top_one, logits), 1);
  top_one.order = SamplingOrder::kNucleusFirst;
  EXPECT_EQ(AcceptFixture(6, 1).Choose(*backend_, top_one, logits), 1);
  EXPECT_EQ(AcceptFixture(3, 1).Choose(*backend_, top_one, {-0.0f, 0.0f, -1.0f}), 0);
}

TEST_F(AcceptTest, NanIsNeverChosen) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const float top_p : {1.0f, 0.5f}) {
      const Sampling s = {.temperature = temperature, .top_p = top_p};
      EXPECT_EQ(AcceptFixture(4, 1).Choose(*backend_, s, {kNan, -kInf, 2, kNan}), 2);
      EXPECT_EQ(AcceptFixture(3, 1).Choose(*backend_, s, {kNan, kNan, kNan}), 0);
    }
  }
}

TEST_F(AcceptTest, IdsWithoutTextAreNeverChosen) {
  for (const float temperature : {0.0f, 1.0f, 50.0f}) {
    for (int position = 0; position < 50; ++position) {
      AcceptFixture fixture(6, 1, 4);
      EXPECT_LT(
          fixture.Choose(*backend_, {.temperature = temperature}, {0, 1, 2, 1, 99, 99}, position),
          4);
    }
  }
}

TEST_F(AcceptTest, BiasIsAddedBeforePenalties) {
  AcceptFixture fixture(3, 1);
  fixture.seen = {kSeenInPrompt, 0, 0};
  Sampling s = kGreedy;
  s.repetition_penalty = 2.0f;
  // Id 0: (-1 + 5) / 2 = 2 beats 1.9. Penalised first it would be -1 * 2 + 5 = 3 and beat 2.5, too.
  EXPECT_EQ(fixture.Run(*backend_, {{.sampling = s,
                                     .logits = {{-1, 1.9f, 0}},
                                     .row_tokens = {0},
                                     .bias_ids = {0},
                                     .bias_values = {5}}})[0][0],
            0);
  EXPECT_EQ(fixture.Run(*backend_, {{.sampling = s,
                                     .logits = {{-1, 2.5f, 0}},
                                     .row_tokens = {0},
                                     .bias_ids = {0},
                                     .bias_values = {5}}})[0][0],
            1);
}

TEST_F(AcceptTest, RepetitionMultipliesNegativeLogitsOfPromptAndReply) {
  AcceptFixture fixture(4, 1);
  fixture.seen = {kSeenInPrompt, kSeenInReply, 0, 0};
  Sampling s = kGreedy;
  s.repetition_penalty = 2.0f;
  // -1 -> -2 for ids 0 and 1; -1.5 stays for id 2.
  EXPECT_EQ(fixture.Choose(*backend_, s, {-1, -1, -1.5f, -9}), 2);
}

// Presence counts tokens of the reply once, whatever their decayed count; prompt tokens never.
TEST_F(AcceptTest, PresenceIgnoresDecayAndPrompt) {
  AcceptFixture fixture(3, 1);
  fixture.seen = {kSeenInReply, kSeenInPrompt, 0};
  fixture.counts = {1e-30f, 0, 0};
  Sampling s = kGreedy;
  s.presence_penalty = 1.0f;
  EXPECT_EQ(fixture.Choose(*backend_, s, {2.5f, 1.6f, 0}), 1);
  EXPECT_EQ(fixture.Choose(*backend_, s, {2.7f, 1.6f, 0}), 0);
}

// After 0, 1, 0 with decay 1/2: c = [1/4 + 1, 1/2, 0].
TEST_F(AcceptTest, CountsDecayPerEmittedToken) {
  AcceptFixture fixture(3, 1);
  Sampling s = kGreedy;
  s.penalty_decay = 0.5f;
  EXPECT_THAT(fixture.Run(*backend_, {{.sampling = s,
                                       .logits = {{9, 0, 0}, {0, 9, 0}, {9, 0, 0}},
                                       .row_tokens = {2, 0, 1}}})[0],
              ElementsAre(0, 1, 0));
  EXPECT_THAT(fixture.counts, ElementsAre(1.25f, 0.5f, 0.0f));
  EXPECT_THAT(fixture.seen, ElementsAre(kSeenInReply, kSeenInReply, 0));
  s.frequency_penalty = 2.0f;
  // 5 - 2 * 1.25 = 2.5 against 3.4 - 2 * 0.5 = 2.4.
  EXPECT_EQ(fixture.Choose(*backend_, s, {5, 3.4f, 0}), 0);
}

TEST_F(AcceptTest, KeepsDraftsWhileTheyEqualTheChoice) {
  for (int wrong_at = 1; wrong_at <= 4; ++wrong_at) {
    AcceptFixture fixture(5, 3);
    std::vector<int32_t> drafts = {4, 1, 2, 3};
    if (wrong_at < 4) drafts[wrong_at] = 0;
    const auto emitted = fixture.Run(
        *backend_, {{.slot = 2,
                     .sampling = kGreedy,
                     .logits = {{0, 9, 0, 0, 0}, {0, 0, 9, 0, 0}, {0, 0, 0, 9, 0}, {0, 0, 0, 0, 9}},
                     .row_tokens = drafts}});
    const std::vector<int32_t> all = {1, 2, 3, 4};
    EXPECT_EQ(emitted[0], std::vector<int32_t>(all.begin(), all.begin() + wrong_at));
    EXPECT_THAT(fixture.accepted, ElementsAre(-7, -7, wrong_at - 1));
    for (int id = 0; id < 5; ++id)
      EXPECT_EQ(fixture.counts[2 * 5 + id], id >= 1 && id <= wrong_at ? 1.0f : 0.0f);
  }
}

TEST_F(AcceptTest, SimulationKeepsSoManyWhateverWasChosen) {
  // The first draft equals the choice, the others do not.
  for (int simulated = 0; simulated <= 4; ++simulated) {
    AcceptFixture fixture(5, 1);
    const auto emitted = fixture.Run(
        *backend_, {{.slot = 0,
                     .simulated = simulated,
                     .sampling = kGreedy,
                     .logits = {{0, 9, 0, 0, 0}, {0, 0, 9, 0, 0}, {0, 0, 0, 9, 0}, {0, 0, 0, 0, 9}},
                     .row_tokens = {4, 1, 0, 0}}});
    const int kept = simulated < 3 ? simulated : 3;
    const std::vector<int32_t> choices = {1, 2, 3, 4};
    EXPECT_EQ(emitted[0], std::vector<int32_t>(choices.begin(), choices.begin() + kept + 1));
    EXPECT_THAT(fixture.accepted, ElementsAre(kept));
  }
}

TEST_F(AcceptTest, SimulationKeepsNoDraftThatDidNotCome) {
  AcceptFixture fixture(5, 1);
  const auto emitted = fixture.Run(
      *backend_, {{.slot = 0,
                   .simulated = 3,
                   .sampling = kGreedy,
                   .logits = {{0, 9, 0, 0, 0}, {0, 0, 9, 0, 0}, {0, 0, 0, 9, 0}, {0, 0, 0, 0, 9}},
                   .row_tokens = {4, 0, -1, 0}}});
  EXPECT_THAT(emitted[0], ElementsAre(1, 2));
  EXPECT_THAT(fixture.accepted, ElementsAre(1));
}

TEST_F(AcceptTest, LaneWithoutRowsChoosesNothing) {
  AcceptFixture fixture(3, 2);
  const auto emitted = fixture.Run(
      *backend_, {{.slot = 1, .sampling = kGreedy},
                  {.slot = 0, .sampling = kGreedy, .logits = {{0, 0, 5}}, .row_tokens = {1}}});
  EXPECT_TRUE(emitted[0].empty());
  EXPECT_THAT(emitted[1], ElementsAre(2));
  EXPECT_THAT(fixture.accepted, ElementsAre(0, 0));
  EXPECT_THAT(fixture.counts, ElementsAre(0, 0, 1, 0, 0, 0));
}

// C14: with min_tokens m the end id appears first as token m + 1, in every split into drafts.
TEST_F(AcceptTest, EndIdsAreBannedUntilMinTokens) {
  for (int min_tokens = 1; min_tokens <= 10; ++min_tokens) {
    for (int k = 0; k <= 3; ++k) {
      AcceptFixture fixture(3, 1);
      Sampling s = kGreedy;
      s.min_tokens = min_tokens;
      std::vector<int32_t> reply;
      while (reply.empty() || reply.back() != 0) {
        const auto emitted =
            fixture.Run(*backend_, {{.generated = static_cast<int>(reply.size()),
                                     .position = static_cast<int64_t>(reply.size()),
                                     .sampling = s,
                                     .logits = std::vector<std::vector<float>>(k + 1, {9, 5, 8}),
                                     .row_tokens = std::vector<int32_t>(k + 1, 1),
                                     .end_ids = {0, 2}}});
        reply.insert(reply.end(), emitted[0].begin(), emitted[0].end());
      }
      EXPECT_EQ(static_cast<int>(reply.size()), min_tokens + 1) << "K=" << k;
      EXPECT_EQ(std::count(reply.begin(), reply.end(), 1), min_tokens) << "K=" << k;
    }
  }
}

// C17: log probabilities are those of the raw logits, whatever bias and penalties did.
TEST_F(AcceptTest, LogprobsOfRawLogits) {
  AcceptFixture fixture(5, 1, 4);
  Sampling s = kGreedy;
  s.top_logprobs = 3;
  const std::vector<float> logits = {1, 3, 3, kNan, 2};
  EXPECT_EQ(fixture.Run(*backend_, {{.sampling = s,
                                     .logits = {logits},
                                     .row_tokens = {0},
                                     .bias_ids = {0},
                                     .bias_values = {50}}})[0][0],
            0);
  const double sum = std::log(std::exp(1) + 2 * std::exp(3) + std::exp(2));
  EXPECT_NEAR(fixture.logprobs[0], 1 - sum, 1e-6);
  EXPECT_THAT(std::vector<int32_t>(fixture.top_ids.begin(), fixture.top_ids.begin() + 4),
              ElementsAre(1, 2, 0, -7));
  EXPECT_NEAR(fixture.top_values[0], 3 - sum, 1e-6);
  EXPECT_NEAR(fixture.top_values[2], 1 - sum, 1e-6);
  s.top_logprobs = -1;
  fixture.Choose(*backend_, s, logits);
  EXPECT_EQ(fixture.logprobs[0], 0.0f);
  EXPECT_EQ(fixture.top_ids[0], -7);
}

}  // namespace
}  // namespace tandem
