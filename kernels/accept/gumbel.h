#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "kernels/accept/log.h"
#include "kernels/accept/philox.h"

namespace tandem {

// Gumbel noise of sampling. The bits of token `id` at an absolute position under a seed are word
// id % 4 of the Philox block {position, id / 4} keyed by the seed.
constexpr std::array<uint32_t, 4> NoiseBlock(uint64_t seed, int64_t position, uint32_t block) {
  const uint64_t p = static_cast<uint64_t>(position);
  return Philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), block, 0},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// -log(-log(u)) with u = (bits + 1/2) / 2^32, which is never 0 or 1. Range -3.14 .. 22.88.
constexpr float Gumbel(uint32_t bits) {
  const double u = (static_cast<double>(bits) + 0.5) * 0x1p-32;
  return static_cast<float>(-Log(-Log(u)));
}

// Not less than Gumbel of any bits.
inline constexpr float kGumbelMax = 22.9f;

// Not less than Gumbel(bits), without a logarithm. With v = 1 - u: -log(u) >= v, so the noise is at
// most -log(v), and v >= 2^-(z+1) where ~bits has z leading zeros. The slack covers every rounding.
constexpr float GumbelBound(uint32_t bits) {
  return static_cast<float>(std::countl_zero(~bits) + 1) * 0.69315f + 0.01f;
}

}  // namespace tandem
