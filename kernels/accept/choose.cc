#include "kernels/accept/choose.h"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/accept/exp_sum.h"
#include "kernels/accept/gumbel.h"
#include "kernels/accept/ranking.h"

namespace tandem {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

bool HasPenalties(const Sampling& s) {
  return s.presence_penalty != 0.0f || s.frequency_penalty != 0.0f || s.repetition_penalty != 1.0f;
}

bool HasCuts(const Sampling& s) { return s.top_k > 0 || s.top_p < 1.0f || s.min_p > 0.0f; }

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
  return {.token = best, .margin = next == kExcluded ? -kExcluded : largest - next};
}

void Penalize(const Choice& choice, int n, float* l) {
  const Sampling& s = *choice.sampling;
  for (int i = 0; i < n; ++i) {
    const uint8_t seen = choice.seen[i];
    if (seen == 0) continue;
    if (s.repetition_penalty != 1.0f)
      l[i] = l[i] > 0.0f ? l[i] / s.repetition_penalty : l[i] * s.repetition_penalty;
    if ((seen & kSeenInReply) != 0)
      l[i] -= s.presence_penalty + s.frequency_penalty * choice.counts[i];
  }
}

// l of the n usable ids: -inf where excluded, otherwise finite.
void Adjust(const Choice& choice, int n, float* l) {
  std::copy(choice.logits, choice.logits + n, l);
  for (size_t i = 0; i < choice.bias_ids.size; ++i) {
    if (choice.bias_ids[i] < n) l[choice.bias_ids[i]] += choice.bias_values[i];
  }
  if (HasPenalties(*choice.sampling)) Penalize(choice, n, l);
  for (size_t i = 0; i < choice.banned.size; ++i) {
    if (choice.banned[i] < n) l[choice.banned[i]] = kExcluded;
  }
  for (int i = 0; i < n; ++i) l[i] = l[i] > kExcluded ? std::min(l[i], kLargest) : kExcluded;
}

// How many of the largest values the cuts keep; `values` are logarithms of weights whose largest is
// 0. `whole` is the sum of all weights, in id order.
int Kept(const Sampling& s, double whole, Ranking& ranking) {
  const auto weight = [&ranking](int j) { return Exp(RankValue(ranking.key(j))); };
  const int n = ranking.size();
  const bool nucleus_first = s.order == SamplingOrder::kNucleusFirst;
  const int limit = s.top_k > 0 ? std::min(s.top_k, n) : n;
  int kept = limit;
  if (s.top_p < 1.0f) {
    double total = whole;
    if (!nucleus_first && limit < n) {
      total = 0.0;
      for (int j = 0; j < limit; ++j) total += weight(j);
    }
    double sum = weight(0);
    int run = 1;
    while (run < limit && sum < static_cast<double>(s.top_p) * total) sum += weight(run++);
    if (nucleus_first) {
      while (run < limit && weight(run) == weight(run - 1)) ++run;
    }
    kept = run;
  }
  if (s.min_p > 0.0f) {
    int run = 1;
    while (run < kept && weight(run) >= s.min_p) ++run;
    kept = run;
  }
  return kept;
}

// The rank key of the last id that the cuts keep, or 0 when they keep all. `values` lies in the
// upper half of `memory` and is overwritten.
uint64_t LastKept(const Sampling& s, const float* values, int n, float* memory) {
  const double whole = s.top_p < 1.0f ? ExpSum(values, n, 0.0f) : 0.0;
  Ranking ranking(values, n, reinterpret_cast<uint64_t*>(memory));
  const int kept = Kept(s, whole, ranking);
  return kept < n ? ranking.key(kept - 1) : 0;
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

int Sample(const Choice& choice, int n, float* l) {
  const Sampling& s = *choice.sampling;
  const int top = Argmax(l, n).token;
  const float largest = l[top];
  if (largest == kExcluded) return top;
  const float cut_temperature = s.order == SamplingOrder::kTemperatureFirst ? s.temperature : 1.0f;
  for (int i = 0; i < n; ++i) l[i] = (l[i] - largest) / cut_temperature;
  if (HasCuts(s)) {
    const uint64_t last = LastKept(s, l, n, choice.scratch);
    Adjust(choice, n, l);
    for (int i = 0; i < n; ++i) {
      l[i] = (l[i] - largest) / cut_temperature;
      if (RankKey(l[i], static_cast<uint32_t>(i)) < last) l[i] = kExcluded;
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
