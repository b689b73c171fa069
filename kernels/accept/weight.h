#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/accept/log.h"

namespace tandem {

// e^x in fp32, with the bits of simd-inl.h's Exp16; x is clamped to [-87, 88].
constexpr float Exp(float x) {
  x = x > -87.0f ? x : -87.0f;
  x = x < 88.0f ? x : 88.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: the sum is rounded to an integer
  const float n = (x * 1.44269504f + kRound) - kRound;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040.0f;
  p = std::fma(p, r, 1.0f / 720.0f);
  p = std::fma(p, r, 1.0f / 120.0f);
  p = std::fma(p, r, 1.0f / 24.0f);
  p = std::fma(p, r, 1.0f / 6.0f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  const uint32_t exponent = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  return p * std::bit_cast<float>(exponent);
}

// A weight e^t, t <= 0, in units of 2^-40, rounded down. Weights are summed as integers, so that a
// sum has the same bits in every order. 2^22 of them fit.
constexpr uint64_t Units(float weight) {
  return static_cast<uint64_t>(static_cast<int64_t>(weight * 0x1p40f));
}

// The fewest units that are at least top_p of `total`.
constexpr uint64_t UnitsNeeded(float top_p, uint64_t total) {
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  const uint64_t below = static_cast<uint64_t>(wanted);
  return static_cast<double>(below) < wanted ? below + 1 : below;
}

// log of the sum of e^l, given the largest l and the units of all e^(l - largest).
constexpr float LogSum(float largest, uint64_t units) {
  return static_cast<float>(largest + Log(static_cast<double>(units) * 0x1p-40));
}

}  // namespace tandem
