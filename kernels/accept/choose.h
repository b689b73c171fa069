#pragma once

#include <cstdint>

#include "kernels/accept/accept.h"
#include "kernels/view.h"

namespace tandem {

// Everything that one choice depends on.
struct Choice {
  int vocab = 0;                  // V
  int usable_vocab = 0;           // ids at and above it are never chosen
  const float* logits = nullptr;  // [V]; NaN counts as -inf
  const Sampling* sampling = nullptr;
  View<const int32_t> bias_ids;   // [n]
  View<const float> bias_values;  // [n]
  View<const int32_t> banned;     // ids that must not be chosen
  const float* counts = nullptr;  // [V]
  const uint8_t* seen = nullptr;  // [V]
  int64_t position = 0;           // of the token to be chosen
  float* scratch = nullptr;       // [2V], 8-byte aligned
};

struct Chosen {
  int32_t token = 0;
  float margin = 0;  // l of the token minus the next largest l; inf without one or if not greedy
};

// The chosen id; 0 when every id is excluded. A pure function of `choice`.
//   l = logits, -inf at banned ids; + bias; repetition, then presence and frequency penalties
//   temperature 0: the lowest id of the largest l
//   kTemperatureFirst: t = l/T; keep the top_k largest t; of these, the shortest run of the largest
//     whose softmax sums to top_p; of these, p >= min_p * max p
//   kNucleusFirst: on p = softmax(l): keep every p not below the one where the sum of the largest
//     reaches top_p, and of the full ranking the top_k largest; of these, p >= min_p * max p
//   result: argmax over the kept ids of l/T + noise
// Rankings put equal values in order of their ids. A sum of weights e^t (t of the largest is 0) is
// one of Units, so that it has no order.
Chosen Choose(const Choice& choice);

}  // namespace tandem
