#pragma once

#include <cstdint>
#include <limits>

#include "kernels/accept/accept.h"

namespace tandem {

inline constexpr float kExcluded = -std::numeric_limits<float>::infinity();

constexpr bool HasPenalties(const Sampling& s) {
  return s.presence_penalty != 0.0f || s.frequency_penalty != 0.0f || s.repetition_penalty != 1.0f;
}

// The logit l of a token with these `seen` bits and this decayed count.
constexpr float Penalize(const Sampling& s, float l, uint8_t seen, float count) {
  if (seen == 0) return l;
  if (s.repetition_penalty != 1.0f)
    l = l > 0.0f ? l / s.repetition_penalty : l * s.repetition_penalty;
  if ((seen & kSeenInReply) != 0) l -= s.presence_penalty + s.frequency_penalty * count;
  return l;
}

// The count of a token after one more token of the reply, which is this one or another.
constexpr float NextCount(float count, float decay, bool chosen) {
  const float decayed = count * decay;
  return chosen ? decayed + 1.0f : decayed;
}

// NaN and -inf are excluded; everything else becomes finite.
constexpr float Finite(float l) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  if (!(l > kExcluded)) return kExcluded;
  return l < kLargest ? l : kLargest;
}

// How far the largest logit lies above the next one; infinite without one.
constexpr float MarginOf(float largest, float next) {
  if (next == kExcluded) return -kExcluded;
  return largest == next ? 0.0f : largest - next;
}

constexpr float NanToLowest(float value) { return value > kExcluded ? value : kExcluded; }

}  // namespace tandem
