#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "kernels/accept/penalty.h"
#include "kernels/backend.h"
#include "tests/gpu/accept_pass.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kDepths = kMaxDrafts + 1;

// Every way of choosing: each cut alone and together, in both orders, at mild and absurd settings.
std::vector<Sampling> Samplings() {
  constexpr SamplingOrder kNucleus = SamplingOrder::kNucleusFirst;
  const Sampling penalties{.temperature = 0.8f,
                           .top_p = 0.9f,
                           .presence_penalty = 0.4f,
                           .frequency_penalty = 0.7f,
                           .repetition_penalty = 1.2f,
                           .penalty_decay = 0.97f,
                           .min_tokens = 7,
                           .top_logprobs = 20};
  Sampling greedy = penalties;
  greedy.temperature = 0.0f;
  Sampling counted = penalties;
  counted.penalty_decay = 1.0f;
  counted.top_p = 1.0f;
  Sampling nucleus = penalties;
  nucleus.order = kNucleus;
  nucleus.top_k = 12;
  return {{.temperature = 0.0f},
          {.temperature = 0.0f, .top_logprobs = 5},
          {.top_logprobs = 0},
          {.temperature = 0.01f},
          {.temperature = 1e6f},
          {.top_k = 1},
          {.temperature = 0.3f, .top_k = 50},
          {.top_k = 1 << 30},
          {.temperature = 0.001f, .top_k = 30},
          {.top_p = 1e-6f},
          {.top_p = 0.9f},
          {.top_p = 0.9999999f},
          {.temperature = 1e6f, .top_p = 0.5f},
          {.min_p = 0.05f},
          {.min_p = 1e-30f},
          {.top_p = 0.95f, .min_p = 0.9f},
          {.temperature = 0.7f, .top_k = 40, .top_p = 0.8f, .min_p = 0.02f},
          {.temperature = 2.0f, .top_p = 0.7f, .order = kNucleus},
          {.temperature = 1.3f, .top_k = 20, .top_p = 0.95f, .order = kNucleus},
          {.temperature = 1.3f, .top_k = 2, .top_p = 0.95f, .min_p = 0.1f, .order = kNucleus},
          penalties,
          greedy,
          counted,
          nucleus};
}

using Random = std::mt19937;

enum class Kind {
  kNormal,
  kPeaked,       // one id well above the others
  kTied,         // few distinct values
  kEqual,        // one value
  kAlternating,  // two neighbouring values
  kHoles,        // many -inf and NaN
  kNothing,      // only -inf and NaN
  kExtreme,      // infinities, largest floats, both zeros
};
constexpr int kKinds = 8;

float Value(Kind kind, int id, Random& random) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  const float value = normal(random);
  const float extremes[] = {kInf, -kInf, kNan, 3e38f, -3e38f, 1e-40f, 0.0f, -0.0f, -1.0f};
  switch (kind) {
    case Kind::kNormal:
      return value;
    case Kind::kPeaked:
      return value + (id == 3 ? 20.0f : 0.0f);
    case Kind::kTied:
      return std::round(value);
    case Kind::kEqual:
      return 1.25f;
    case Kind::kAlternating:
      return id % 2 == 0 ? 1.25f : std::nextafter(1.25f, 0.0f);
    case Kind::kHoles:
      return random() % 3 == 0 ? kNan : random() % 3 == 0 ? -kInf : value;
    case Kind::kNothing:
      return random() % 2 == 0 ? kNan : -kInf;
    case Kind::kExtreme:
      return extremes[random() % 9];
  }
  return 0.0f;
}

// A pass whose drafts are often the likeliest id of the row before.
AcceptPass RandomPass(int vocab, int usable, int lanes, int max_rows, Random& random) {
  const std::vector<Sampling> samplings = Samplings();
  AcceptPass pass{.vocab = vocab, .usable_vocab = usable, .slots = lanes + 2};
  pass.counts.resize(static_cast<size_t>(pass.slots) * vocab);
  pass.seen.resize(pass.counts.size());
  for (size_t i = 0; i < pass.seen.size(); ++i) {
    pass.seen[i] = random() % 8 < 4 ? static_cast<uint8_t>(random() % 4) : 0;
    if ((pass.seen[i] & kSeenInReply) != 0) pass.counts[i] = 0.01f * (random() % 400);
  }
  for (int i = 0; i < lanes; ++i) {
    AcceptPass::Lane lane{
        .lane = {.slot = pass.slots - 1 - i,
                 .first_row = static_cast<int>(pass.row_tokens.size()),
                 .rows = static_cast<int>(random() % (max_rows + 1)),
                 .generated = static_cast<int>(random() % 9),
                 .position = static_cast<int64_t>(random()) << (random() % 20),
                 .simulated = static_cast<int>(random() % (2 * kMaxDrafts)) - kMaxDrafts,
                 .sampling = samplings[random() % samplings.size()]}};
    if (HasPenalties(lane.lane.sampling)) lane.lane.simulated = -1;
    if (i == 0 && lane.lane.rows == 0) lane.lane.rows = 1;
    lane.lane.sampling.seed = uint64_t{random()} * 0x100000001u;
    for (int id = static_cast<int>(random() % 5); id < vocab && random() % 2 == 0;
         id += 1 + static_cast<int>(random() % 700)) {
      lane.bias_ids.push_back(id);
      lane.bias_values.push_back(static_cast<float>(random() % 400) * 0.1f - 20.0f);
    }
    lane.end_ids = {0, static_cast<int32_t>(random() % vocab)};
    const Kind kind = static_cast<Kind>(random() % (2 * kKinds) % (kKinds + 1) % kKinds);
    int likeliest = 0;
    for (int row = 0; row < lane.lane.rows; ++row) {
      pass.row_tokens.push_back(random() % 8 == 0 ? static_cast<int>(random() % vocab) : likeliest);
      likeliest = 0;
      const size_t first = pass.logits.size();
      for (int id = 0; id < vocab; ++id) {
        pass.logits.push_back(Value(kind, id, random));
        if (id < usable && pass.logits[first + id] > pass.logits[first + likeliest]) likeliest = id;
      }
    }
    pass.lanes.push_back(lane);
  }
  return pass;
}

bool SameFloat(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Every promised output, bit for bit.
void ExpectSame(const AcceptPass& pass, const AcceptResult& expected, const AcceptResult& actual) {
  EXPECT_EQ(actual.accepted, expected.accepted);
  ASSERT_EQ(actual.emitted, expected.emitted);
  for (size_t i = 0; i < pass.lanes.size(); ++i) {
    const Sampling& s = pass.lanes[i].lane.sampling;
    for (int row = 0; row < expected.emitted[i]; ++row) {
      const size_t at = i * kDepths + row;
      const std::string where = "lane " + std::to_string(i) + " row " + std::to_string(row);
      EXPECT_EQ(actual.tokens[at], expected.tokens[at]) << where;
      EXPECT_TRUE(SameFloat(actual.logprobs[at], expected.logprobs[at]))
          << where << ": " << actual.logprobs[at] << " for " << expected.logprobs[at];
      EXPECT_EQ(actual.margins[at], expected.margins[at]) << where;
      for (int j = 0; j < s.top_logprobs; ++j) {
        const size_t top = at * kMaxTopLogprobs + j;
        EXPECT_EQ(actual.top_ids[top], expected.top_ids[top]) << where << " top " << j;
        EXPECT_TRUE(SameFloat(actual.top_values[top], expected.top_values[top]))
            << where << " top " << j;
      }
    }
  }
  EXPECT_EQ(actual.seen, expected.seen);
  EXPECT_EQ(actual.counts, expected.counts);
}

class AcceptCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  void ExpectAsCpu(const AcceptPass& pass, int choices) {
    ExpectSame(pass, RunAccept(*cpu_, pass, 1), RunAccept(*cuda_, pass, choices));
  }

  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(1);
  std::unique_ptr<Backend> cuda_;
};

TEST_F(AcceptCudaTest, SmallVocabulary) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    ExpectAsCpu(RandomPass(37, i % 2 == 0 ? 37 : 30, 1 + i % 32, kDepths, random), 1 + i % 40);
  }
}

TEST_F(AcceptCudaTest, VocabularyOfTheDemo) {
  Random random(2);
  for (int i = 0; i < 12; ++i) {
    SCOPED_TRACE(i);
    ExpectAsCpu(RandomPass(4096, 4096, 1 + 7 * i % 32, kDepths, random), 64);
  }
}

// No multiple of anything, and ids without text at the end.
TEST_F(AcceptCudaTest, OddVocabulary) {
  Random random(3);
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    ExpectAsCpu(RandomPass(6147, 6147 - 3000 * (i % 2), 5 + i, 3, random), 7);
  }
}

TEST_F(AcceptCudaTest, VocabularyOfTheLargeModels) {
  Random random(4);
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    ExpectAsCpu(RandomPass(65536, 65530, 12, 4, random), 132);
  }
}

// Every setting on every kind of logits.
TEST_F(AcceptCudaTest, EverySettingOnEveryKind) {
  Random random(5);
  for (int kind = 0; kind < kKinds; ++kind) {
    AcceptPass pass = RandomPass(2500, 2500, static_cast<int>(Samplings().size()), 1, random);
    pass.row_tokens.clear();
    pass.logits.clear();
    for (size_t i = 0; i < pass.lanes.size(); ++i) {
      AcceptLane& lane = pass.lanes[i].lane;
      lane.first_row = static_cast<int>(i);
      lane.rows = 1;
      lane.sampling = Samplings()[i];
      pass.row_tokens.push_back(0);
      for (int id = 0; id < pass.vocab; ++id)
        pass.logits.push_back(Value(static_cast<Kind>(kind), id, random));
    }
    SCOPED_TRACE(kind);
    ExpectAsCpu(pass, 100);
  }
}

// Replaces drafts by the CPU's choices until whole lanes are accepted.
void DraftWhatWillBeChosen(Backend& cpu, AcceptPass* pass) {
  for (int row = 1; row < kDepths; ++row) {
    const AcceptResult result = RunAccept(cpu, *pass, 1);
    for (size_t i = 0; i < pass->lanes.size(); ++i) {
      const int emitted = result.emitted[i];
      const AcceptLane& lane = pass->lanes[i].lane;
      if (emitted < lane.rows)
        pass->row_tokens[lane.first_row + emitted] = result.tokens[i * kDepths + emitted - 1];
    }
  }
}

// Long accepted runs over the same few likely ids: every row depends on the drafts before it by
// counts, seen bits and bans.
TEST_F(AcceptCudaTest, RowsSeeTheDraftsBeforeThem) {
  Random random(7);
  AcceptPass pass = RandomPass(300, 300, 48, kDepths, random);
  pass.row_tokens.assign(48 * kDepths, 1);
  pass.logits.clear();
  for (int i = 0; i < 48; ++i) {
    AcceptLane& lane = pass.lanes[i].lane;
    lane.first_row = i * kDepths;
    lane.rows = kDepths;
    lane.simulated = -1;
    lane.sampling = Samplings()[20 + i % 4];
    lane.sampling.seed = static_cast<uint64_t>(i);
    for (int at = 0; at < kDepths * 300; ++at)
      pass.logits.push_back(at % 300 < 8 ? 5.0f - 0.3f * (at % 300) : -3.0f);
  }
  DraftWhatWillBeChosen(*cpu_, &pass);
  const AcceptResult whole = RunAccept(*cuda_, pass, 500);
  for (const int emitted : whole.emitted) EXPECT_EQ(emitted, kDepths);
  ExpectAsCpu(pass, 500);
  for (int i = 0; i < 48; ++i) pass.row_tokens[i * kDepths + 1 + i % kMaxDrafts] = 299;
  ExpectAsCpu(pass, 500);
}

// All ids banned: id 0, whatever the cuts; one left: that one.
TEST_F(AcceptCudaTest, BansOfAllIdsAndOfAllButOne) {
  for (const int left : {-1, 70}) {
    for (Sampling s : Samplings()) {
      s.min_tokens = 100;
      AcceptPass pass{.vocab = 100, .usable_vocab = 100, .slots = 1};
      pass.counts.resize(100);
      pass.seen.resize(100);
      pass.row_tokens = {0};
      pass.logits.assign(100, 2.0f);
      pass.lanes.push_back({.lane = {.rows = 1, .sampling = s}});
      for (int id = 0; id < 100; ++id) {
        if (id != left) pass.lanes[0].end_ids.push_back(id);
      }
      EXPECT_EQ(RunAccept(*cuda_, pass, 1).tokens[0], std::max(left, 0));
      ExpectAsCpu(pass, 1);
    }
  }
}

// A lane's outputs have the same bits alone, among others, and whatever the scratch memory holds.
TEST_F(AcceptCudaTest, LanesAreIndependent) {
  Random random(6);
  const AcceptPass together = RandomPass(4096, 4000, 32, kDepths, random);
  const AcceptResult expected = RunAccept(*cuda_, together, 288);
  ExpectSame(together, expected, RunAccept(*cuda_, together, 5));
  const size_t v = together.vocab;
  for (size_t i = 0; i < together.lanes.size(); ++i) {
    AcceptPass alone = together;
    AcceptLane& lane = alone.lanes[i].lane;
    const size_t first = lane.first_row;
    lane.first_row = 0;
    alone.lanes = {alone.lanes[i]};
    alone.row_tokens = {together.row_tokens.begin() + first,
                        together.row_tokens.begin() + first + lane.rows};
    alone.logits = {together.logits.begin() + first * v,
                    together.logits.begin() + (first + lane.rows) * v};
    const AcceptResult one = RunAccept(*cuda_, alone, 9);
    SCOPED_TRACE(i);
    const int emitted = expected.emitted[i];
    ASSERT_EQ(one.emitted[0], emitted);
    EXPECT_EQ(one.accepted[lane.slot], expected.accepted[lane.slot]);
    const size_t slot = lane.slot * v;
    for (int row = 0; row < emitted; ++row) {
      EXPECT_EQ(one.tokens[row], expected.tokens[i * kDepths + row]);
      EXPECT_TRUE(SameFloat(one.logprobs[row], expected.logprobs[i * kDepths + row]));
    }
    EXPECT_TRUE(std::equal(&one.counts[slot], &one.counts[slot] + v, &expected.counts[slot]));
    EXPECT_TRUE(std::equal(&one.seen[slot], &one.seen[slot] + v, &expected.seen[slot]));
  }
}

}  // namespace
}  // namespace tandem
