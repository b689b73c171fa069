#include "kernels/accept/choose.h"

#include <algorithm>
#include <array>

#include "kernels/accept/cut.h"
#include "kernels/accept/exp_sum.h"
#include "kernels/accept/gumbel.h"
#include "kernels/accept/penalty.h"
#include "kernels/accept/ranking.h"

namespace tandem {
namespace {

// The lowest id of the largest of n values; 0 when none is above -inf. NaN never wins.
Chosen Argmax(const float* values, int n) {
  int best = 0;
  float largest = kExcluded;
  float next = kExcluded;
  for (int i = 0; i < n; ++i) {
    if (values[i] > largest) {
      next = largest;
      largest = values[i];
      best = i;
    } else if (values[i] > next) {
      next = values[i];
    }
  }
  return {.token = best, .margin = MarginOf(largest, next)};
}

// l of the n usable ids: -inf where excluded, otherwise finite.
void Adjust(const Choice& choice, int n, float* l) {
  std::copy(choice.logits, choice.logits + n, l);
  for (size_t i = 0; i < choice.bias_ids.size; ++i) {
    if (choice.bias_ids[i] < n) l[choice.bias_ids[i]] += choice.bias_values[i];
  }
  if (HasPenalties(*choice.sampling)) {
    for (int i = 0; i < n; ++i)
      l[i] = Penalize(*choice.sampling, l[i], choice.seen[i], choice.counts[i]);
  }
  for (size_t i = 0; i < choice.banned.size; ++i) {
    if (choice.banned[i] < n) l[choice.banned[i]] = kExcluded;
  }
  for (int i = 0; i < n; ++i) l[i] = Finite(l[i]);
}

// The key at which the sum of the `limit` largest weights reaches `needed` units; 0 when it does
// not.
uint64_t LastOfSum(uint64_t needed, int limit, Ranking& ranking) {
  uint64_t sum = 0;
  for (int j = 0; j < limit; ++j) {
    sum += Units(Exp(RankValue(ranking.key(j))));
    if (sum >= needed) return ranking.key(j);
  }
  return 0;
}

// The cuts among n values whose largest is 0. If they depend on the ranking, `values`, which lies
// in the upper half of `memory` [2n], is overwritten.
Cut FindCut(const Sampling& s, const float* values, int n, float* memory) {
  if (!HasRankCuts(s, n)) return MakeCut(s, 0, 0);
  uint64_t total = s.top_p < 1.0f ? ExpSum(values, n, 0.0f) : 0;
  Ranking ranking(values, n, reinterpret_cast<uint64_t*>(memory));
  const int limit = HasTopK(s, n) ? s.top_k : n;
  const uint64_t last_of_k = limit < n ? ranking.key(limit - 1) : 0;
  if (s.top_p >= 1.0f) return MakeCut(s, last_of_k, 0);
  if (last_of_k != 0 && s.order == SamplingOrder::kTemperatureFirst) {
    total = 0;
    for (int j = 0; j < limit; ++j) total += Units(Exp(RankValue(ranking.key(j))));
  }
  return MakeCut(s, last_of_k, LastOfSum(UnitsNeeded(s.top_p, total), limit, ranking));
}

// argmax of t + noise, ties to the lowest id. `first` is an id of the largest t. Noise is only
// computed where it could change the result: the bounds are never below the noise, and rounding of
// a sum is monotone.
int NoisyArgmax(const Sampling& s, int64_t position, const float* t, int n, int first) {
  int best = first;
  float score = t[first] + Gumbel(NoiseBlock(s.seed, position, first / 4)[first % 4]);
  for (int i = 0; i < n; i += 4) {
    const int count = std::min(4, n - i);
    const float largest = *std::max_element(t + i, t + i + count);
    if (largest + kGumbelMax < score) continue;
    const std::array<uint32_t, 4> bits = NoiseBlock(s.seed, position, i / 4);
    for (int j = 0; j < count; ++j) {
      if (t[i + j] + GumbelBound(bits[j]) < score) continue;
      const float candidate = t[i + j] + Gumbel(bits[j]);
      if (candidate > score || (candidate == score && i + j < best)) {
        score = candidate;
        best = i + j;
      }
    }
  }
  return best;
}

// l as the cuts see it: its largest value becomes 0.
void Scale(float largest, float temperature, int n, float* l) {
  for (int i = 0; i < n; ++i) l[i] = (l[i] - largest) / temperature;
}

int Sample(const Choice& choice, int n, float* l) {
  const Sampling& s = *choice.sampling;
  const int top = Argmax(l, n).token;
  const float largest = l[top];
  if (largest == kExcluded) return top;
  const float cut_temperature = CutTemperature(s);
  Scale(largest, cut_temperature, n, l);
  const Cut cut = FindCut(s, l, n, choice.scratch);
  if (HasRankCuts(s, n)) {
    Adjust(choice, n, l);
    Scale(largest, cut_temperature, n, l);
  }
  if (cut.last != 0) {
    for (int i = 0; i < n; ++i) {
      if (!Keeps(cut, l[i], static_cast<uint32_t>(i))) l[i] = kExcluded;
    }
  }
  if (cut_temperature != s.temperature) {
    for (int i = 0; i < n; ++i) l[i] /= s.temperature;
  }
  return NoisyArgmax(s, choice.position, l, n, top);
}

}  // namespace

Chosen Choose(const Choice& choice) {
  const Sampling& s = *choice.sampling;
  const int n = std::min(choice.vocab, choice.usable_vocab);
  const bool plain = choice.bias_ids.size == 0 && choice.banned.size == 0 && !HasPenalties(s);
  if (s.temperature == 0.0f && plain) return Argmax(choice.logits, n);
  float* l = choice.scratch + choice.vocab;
  Adjust(choice, n, l);
  if (s.temperature == 0.0f) return Argmax(l, n);
  return {.token = Sample(choice, n, l), .margin = -kExcluded};
}

}  // namespace tandem
