#include <gtest/gtest.h>

#include <random>

#include "kernels/accept/accept.h"
#include "tests/kernels/accept_fixture.h"

namespace tandem {
namespace {

constexpr int kVocab = 37;
constexpr int kLength = 40;

// A fixed "model": the logits of a position depend on the position and the token before it.
std::vector<float> Logits(int64_t position, int32_t previous) {
  std::mt19937 random(static_cast<uint32_t>(position * 1000 + previous));
  std::normal_distribution<float> normal(0, 1.5f);
  std::vector<float> logits(kVocab);
  for (float& l : logits) l = normal(random);
  return logits;
}

struct Reply {
  std::vector<int32_t> tokens;
  std::vector<float> counts, logprobs;
  std::vector<uint8_t> seen;
};

std::vector<Sampling> Samplings() {
  const Sampling penalties{.temperature = 0.8f,
                           .top_p = 0.9f,
                           .presence_penalty = 0.4f,
                           .frequency_penalty = 0.7f,
                           .repetition_penalty = 1.2f,
                           .penalty_decay = 0.97f,
                           .seed = 99,
                           .min_tokens = 7,
                           .top_logprobs = 2};
  Sampling greedy = penalties;
  greedy.temperature = 0.0f;
  Sampling nucleus_first = penalties;
  nucleus_first.order = SamplingOrder::kNucleusFirst;
  nucleus_first.top_k = 12;
  return {{.temperature = 0.0f}, {.seed = 3}, penalties, greedy, nucleus_first};
}

// A reply of kLength tokens in steps of up to k drafts, each right with probability `quality`.
// `truth` is what the drafts know.
Reply Generate(Backend& backend, const Sampling& sampling, int k, double quality,
               const std::vector<int32_t>& truth) {
  std::mt19937 random(17);
  AcceptFixture fixture(kVocab, 1);
  fixture.seen[5] = kSeenInPrompt;
  Reply reply;
  while (static_cast<int>(reply.tokens.size()) < kLength) {
    const int done = static_cast<int>(reply.tokens.size());
    const int drafts = std::min(k, kLength - done - 1);
    AcceptFixture::Lane lane{.generated = done,
                             .position = 100 + done,
                             .sampling = sampling,
                             .bias_ids = {4, 9},
                             .bias_values = {1.5f, -2.0f},
                             .end_ids = {0, 1}};
    int32_t previous = done == 0 ? 5 : reply.tokens.back();
    for (int row = 0; row <= drafts; ++row) {
      if (row > 0) {
        const bool right = random() < quality * 4294967296.0;
        previous = right ? truth[done + row - 1] : static_cast<int32_t>(random() % kVocab);
      }
      lane.row_tokens.push_back(previous);
      lane.logits.push_back(Logits(lane.position + row, previous));
    }
    const std::vector<int32_t> emitted = fixture.Run(backend, {lane})[0];
    reply.tokens.insert(reply.tokens.end(), emitted.begin(), emitted.end());
    for (size_t i = 0; i < emitted.size(); ++i) reply.logprobs.push_back(fixture.logprobs[i]);
  }
  reply.counts = fixture.counts;
  reply.seen = fixture.seen;
  return reply;
}

// C01, C04, C15: the reply is a function of seed and positions; drafts of any number and quality
// change neither tokens nor counts nor log probabilities.
TEST(AcceptRowsTest, DraftsChangeNothing) {
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  for (const Sampling& sampling : Samplings()) {
    const Reply plain = Generate(*backend, sampling, 0, 0, {});
    for (int k = 1; k <= kMaxDrafts; ++k) {
      for (const double quality : {0.0, 0.7, 1.0}) {
        const Reply drafted = Generate(*backend, sampling, k, quality, plain.tokens);
        EXPECT_EQ(drafted.tokens, plain.tokens) << "K=" << k;
        EXPECT_EQ(drafted.counts, plain.counts) << "K=" << k;
        EXPECT_EQ(drafted.seen, plain.seen) << "K=" << k;
        EXPECT_EQ(drafted.logprobs, plain.logprobs) << "K=" << k;
      }
    }
  }
}

// C03: differently seeded lanes in one pass equal the same lanes alone, for any scratch and pool.
TEST(AcceptRowsTest, LanesAreIndependent) {
  const std::vector<Sampling> samplings = Samplings();
  std::vector<AcceptFixture::Lane> lanes;
  for (int i = 0; i < 15; ++i) {
    AcceptFixture::Lane lane{.slot = 14 - i,
                             .generated = i,
                             .position = 10 * i,
                             .sampling = samplings[i % samplings.size()],
                             .end_ids = {2}};
    lane.sampling.seed += static_cast<uint64_t>(i);
    for (int row = 0; row <= i % 4; ++row) {
      lane.row_tokens.push_back(row);
      lane.logits.push_back(Logits(lane.position + row, row));
    }
    lanes.push_back(lane);
  }
  const std::unique_ptr<Backend> one = MakeCpuBackend(1);
  const std::unique_ptr<Backend> three = MakeCpuBackend(3);
  AcceptFixture solo(kVocab, 15);
  std::vector<std::vector<int32_t>> expected;
  for (const AcceptFixture::Lane& lane : lanes) expected.push_back(solo.Run(*one, {lane})[0]);
  for (const int scratch_lanes : {1, 4, 40}) {
    AcceptFixture together(kVocab, 15);
    EXPECT_EQ(together.Run(*three, lanes, scratch_lanes), expected);
    EXPECT_EQ(together.counts, solo.counts);
    EXPECT_EQ(together.seen, solo.seen);
    EXPECT_EQ(together.accepted, solo.accepted);
  }
}

// Memory for less than one choice is a mistake of the caller, never a pass without tokens.
TEST(AcceptRowsDeathTest, TooLittleScratch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  AcceptFixture fixture(kVocab, 1);
  EXPECT_DEATH(fixture.Run(*backend, {{.logits = {Logits(0, 0)}, .row_tokens = {0}}}, 0),
               "scratch of 0 floats, one choice among 37 ids needs 4148");
}

}  // namespace
}  // namespace tandem
