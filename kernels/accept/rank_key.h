#pragma once

#include <bit>
#include <cstdint>

namespace tandem {

// An order of (value, id) as one integer: larger value first, then lower id, when sorted downwards.
// `value` must not be NaN; both zeros count as equal. No key is 0.
constexpr uint64_t RankKey(float value, uint32_t id) {
  const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ordered} << 32 | (0xFFFFFFFFu - id);
}

constexpr float RankValue(uint64_t key) {
  const uint32_t ordered = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>((ordered >> 31) != 0 ? ordered & 0x7FFFFFFFu : ~ordered);
}

constexpr int32_t RankId(uint64_t key) {
  return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(key));
}

}  // namespace tandem
