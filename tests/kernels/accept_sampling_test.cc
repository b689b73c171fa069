#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "kernels/accept/accept.h"
#include "kernels/accept/philox.h"
#include "tests/kernels/accept_fixture.h"

namespace tandem {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// The kept ids and what is left of their logits, in double precision, straight from the
// definition: full sort, no short cuts.
std::map<int, double> Kept(const Sampling& s, const std::vector<double>& l) {
  const bool nucleus_first = s.order == SamplingOrder::kNucleusFirst;
  const int n = static_cast<int>(l.size());
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return l[a] > l[b]; });
  const double divisor = nucleus_first ? 1.0 : s.temperature;
  const auto weight = [&](int id) { return std::exp((l[id] - l[order[0]]) / divisor); };
  const int limit = s.top_k > 0 ? std::min(s.top_k, n) : n;
  double total = 0;
  for (int i = 0; i < (nucleus_first ? n : limit); ++i) total += weight(order[i]);
  std::map<int, double> kept;
  double sum = 0;
  double cutoff = -1;
  for (int i = 0; i < limit; ++i) {
    const double w = weight(order[i]);
    if (s.top_p < 1 && cutoff >= 0 && !(nucleus_first && w >= cutoff)) break;
    sum += w;
    if (s.top_p < 1 && cutoff < 0 && sum >= s.top_p * total) cutoff = w;
    if (w >= s.min_p && l[order[i]] > kExcluded) kept[order[i]] = l[order[i]] / s.temperature;
  }
  return kept;
}

double Noise(uint64_t seed, uint64_t position, int id) {
  const auto bits =
      Philox4x32({static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
                  static_cast<uint32_t>(id / 4), 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return -std::log(-std::log((bits[id % 4] + 0.5) / 4294967296.0));
}

int Reference(const Sampling& s, const std::vector<float>& logits, int64_t position) {
  int best = -1;
  double score = kExcluded;
  for (const auto& [id, t] : Kept(s, {logits.begin(), logits.end()})) {
    const double candidate = t + Noise(s.seed, position, id);
    if (candidate > score) {
      score = candidate;
      best = id;
    }
  }
  return best;
}

std::vector<float> RandomLogits(std::mt19937& random, int vocab, float spread) {
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(vocab);
  for (float& l : logits) l = normal(random);
  return logits;
}

class AcceptSamplingTest : public ::testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
};

// Every combination of cuts and both orders, against the definition.
TEST_F(AcceptSamplingTest, EqualsTheDefinition) {
  std::mt19937 random(7);
  int rows = 0;
  for (const int vocab : {5, 64, 1001}) {
    for (const int top_k : {0, 1, 3, 50, 5000}) {
      for (const float top_p : {1.0f, 0.95f, 0.5f, 0.01f}) {
        for (const float min_p : {0.0f, 0.05f, 0.9f}) {
          for (const float temperature : {0.3f, 1.0f, 1.7f}) {
            for (const SamplingOrder order :
                 {SamplingOrder::kTemperatureFirst, SamplingOrder::kNucleusFirst}) {
              Sampling s{.temperature = temperature,
                         .top_k = top_k,
                         .top_p = top_p,
                         .min_p = min_p,
                         .seed = random() * 0x100000001ull,
                         .order = order};
              const std::vector<float> logits = RandomLogits(random, vocab, 2.0f);
              const int64_t position = static_cast<int64_t>(random()) << (rows % 20);
              EXPECT_EQ(AcceptFixture(vocab, 1).Choose(*backend_, s, logits, position),
                        Reference(s, logits, position))
                  << "V=" << vocab << " k=" << top_k << " p=" << top_p << " min_p=" << min_p
                  << " T=" << temperature << " order=" << static_cast<int>(order);
              ++rows;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(rows, 3 * 5 * 4 * 3 * 3 * 2);
}

// The ids that can come out of many draws.
std::set<int> Support(Backend& backend, Sampling s, const std::vector<float>& logits) {
  std::set<int> support;
  AcceptFixture fixture(static_cast<int>(logits.size()), 1);
  for (int position = 0; position < 400; ++position)
    support.insert(fixture.Choose(backend, s, logits, position));
  return support;
}

std::vector<float> Logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// p = 1/2 1/4 1/8 1/8 with ids out of order.
TEST_F(AcceptSamplingTest, HandWorkedNucleus) {
  const std::vector<float> logits = Logs({0.125, 0.5, 0.125, 0.25});
  const auto support = [&](Sampling s) { return Support(*backend_, s, logits); };
  EXPECT_EQ(support({.top_p = 0.49f}), (std::set<int>{1}));
  EXPECT_EQ(support({.top_p = 0.6f}), (std::set<int>{1, 3}));
  // Beyond 3/4 one of the two ids at 1/8 is needed: the lower id, or both by value.
  EXPECT_EQ(support({.top_p = 0.8f}), (std::set<int>{0, 1, 3}));
  EXPECT_EQ(support({.top_p = 0.8f, .order = SamplingOrder::kNucleusFirst}),
            (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(support({.top_p = 1.0f}), (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(support({.top_k = 3}), (std::set<int>{0, 1, 3}));
  // 1/4 is half of the largest, 1/8 a quarter.
  EXPECT_EQ(support({.min_p = 0.4f}), (std::set<int>{1, 3}));
  EXPECT_EQ(support({.min_p = 0.2f}), (std::set<int>{0, 1, 2, 3}));
}

// T = 2 turns p into its square roots: the nucleus of 0.55 needs a second id.
TEST_F(AcceptSamplingTest, TemperatureBeforeOrAfterTheNucleus) {
  const std::vector<float> logits = Logs({0.6, 0.2, 0.1, 0.1});
  Sampling s{.temperature = 2.0f, .top_p = 0.55f};
  // Shares at T = 2: 0.775 0.447 0.316 0.316 of 1.854 = 0.418 0.241 0.171 0.171.
  EXPECT_EQ(Support(*backend_, s, logits), (std::set<int>{0, 1}));
  s.order = SamplingOrder::kNucleusFirst;
  EXPECT_EQ(Support(*backend_, s, logits), (std::set<int>{0}));
  // top_p inside the top_k set (2/3 and more of 0.6 + 0.2) against the full ranking.
  s = {.top_k = 2, .top_p = 0.7f};
  EXPECT_EQ(Support(*backend_, s, logits), (std::set<int>{0}));
  s.order = SamplingOrder::kNucleusFirst;
  EXPECT_EQ(Support(*backend_, s, logits), (std::set<int>{0, 1}));
}

// Without top_p the orders are the same function, also of the noise.
TEST_F(AcceptSamplingTest, OrdersAgreeWithoutNucleus) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::vector<float> logits = RandomLogits(random, 100, 2.0f);
    Sampling s{.temperature = 0.5f + 0.01f * i, .top_k = i % 7, .seed = 11};
    const int a = AcceptFixture(100, 1).Choose(*backend_, s, logits, i);
    s.order = SamplingOrder::kNucleusFirst;
    EXPECT_EQ(AcceptFixture(100, 1).Choose(*backend_, s, logits, i), a);
  }
}

// C02, C01: another seed gives other text, the same seed the same.
TEST_F(AcceptSamplingTest, SeedReachesEveryDraw) {
  const std::vector<float> flat(64, 0.0f);
  const auto draw = [&](uint64_t seed) {
    std::vector<int> ids;
    for (int position = 0; position < 50; ++position)
      ids.push_back(AcceptFixture(64, 1).Choose(*backend_, {.seed = seed}, flat, position));
    return ids;
  };
  const std::vector<int> first = draw(1);
  EXPECT_EQ(first, draw(1));
  EXPECT_GT(std::set<int>(first.begin(), first.end()).size(), 20u);
  for (const uint64_t seed : {0ull, 2ull, 1ull << 32, ~0ull}) {
    const std::vector<int> other = draw(seed);
    int equal = 0;
    for (int i = 0; i < 50; ++i) equal += other[i] == first[i];
    EXPECT_LT(equal, 10) << seed;
  }
}

// Drafted and verified draws follow the distribution: chi-square with 4 degrees of freedom, the
// 0.999 quantile is 18.47.
TEST_F(AcceptSamplingTest, DistributionWithDrafts) {
  const std::vector<double> p = {0.4, 0.05, 0.25, 0.2, 0.1};
  const std::vector<float> logits = Logs(p);
  std::mt19937 random(5);
  for (const uint64_t seed : {1ull, 2ull, 3ull}) {
    AcceptFixture fixture(5, 1);
    std::array<int, 5> drawn = {};
    int64_t position = 0;
    while (position < 20000) {
      const std::vector<int32_t> drafts = {0, static_cast<int32_t>(random() % 5),
                                           static_cast<int32_t>(random() % 2), 0};
      const auto emitted = fixture.Run(*backend_, {{.position = position,
                                                    .sampling = {.seed = seed},
                                                    .logits = {logits, logits, logits, logits},
                                                    .row_tokens = drafts}});
      for (const int32_t id : emitted[0]) ++drawn[id];
      position += static_cast<int64_t>(emitted[0].size());
    }
    double chi_square = 0;
    for (int id = 0; id < 5; ++id) {
      const double expected = p[id] * position;
      chi_square += (drawn[id] - expected) * (drawn[id] - expected) / expected;
    }
    EXPECT_LT(chi_square, 18.47) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tandem
