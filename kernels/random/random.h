#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/accept/philox.h"

namespace tandem {

// Numbers made from a seed, for weights that nobody trained. Number i is
//   mean + scale * u,   u = sqrt(3) / 2^31 times word i % 4, as a signed integer, of the Philox
//                       block {i / 4} keyed by the seed
// so u is uniform with mean 0 and variance 1. All in fp32, one rounding per operation: every
// backend makes the same bits.
struct RandomFill {
  uint64_t seed = 0;
  float scale = 1.0f;  // standard deviation
  float mean = 0.0f;
};

inline constexpr float kRandomUnit = 1.7320508f * 0x1p-31f;  // sqrt(3) / 2^31

// Numbers 4 * block ... + 3.
constexpr std::array<float, 4> RandomBlock(const RandomFill& fill, uint64_t block) {
  const std::array<uint32_t, 4> bits =
      Philox4x32({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                 {static_cast<uint32_t>(fill.seed), static_cast<uint32_t>(fill.seed >> 32)});
  std::array<float, 4> values{};
  for (size_t i = 0; i < 4; ++i) {
    const float unit = static_cast<float>(static_cast<int32_t>(bits[i])) * kRandomUnit;
    const float deviation = fill.scale * unit;
    values[i] = fill.mean + deviation;
  }
  return values;
}

void FillRandomCpu(float* to, size_t count, const RandomFill& fill);
// The same numbers rounded to bf16, to nearest even.
void FillRandomBf16Cpu(uint16_t* to, size_t count, const RandomFill& fill);

}  // namespace tandem
