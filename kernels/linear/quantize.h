#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

// How finite bf16 weights are rounded to the smaller formats; every backend does the same.
//
//   Fp8   scale[n] = max_k |W[n, k]| / 448, code = E4M3 of W / scale, clamped to +-448
//   Int8  scale[n] = max_k |W[n, k]| / 127, code = W / scale rounded, in +-127
//   Int6  scale[n, g] = bf16 of max |W[n, k]| / 31 over the 64 inputs of group g; code = W / scale
//         rounded, in +-31; stored as u = code + 32
//
// All in fp32, round to nearest even. A scale of 0 becomes 1.
namespace tandem {

inline constexpr int kInt6Group = 64;
inline constexpr int kInt6Zero = 32;  // u of the code 0

constexpr float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
constexpr uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The largest magnitude of weights[count].
inline float LargestMagnitude(const uint16_t* weights, int count) {
  float largest = 0.0f;
  for (int k = 0; k < count; ++k) largest = std::max(largest, std::fabs(Bf16ToFloat(weights[k])));
  return largest;
}

constexpr float ScaleOf(float largest, float limit) {
  const float scale = largest / limit;
  return scale > 0.0f ? scale : 1.0f;
}

// `value` within +-448.
inline uint8_t EncodeE4m3(float value) {
  const uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  const float magnitude = std::fabs(value);
  if (magnitude < 0x1p-6f)  // multiples of 2^-9
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 512.0f)));
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (bits + 0x7ffffu + ((bits >> 20) & 1u)) >> 20;
  return static_cast<uint8_t>(sign | (rounded - (120u << 3)));
}
inline float DecodeE4m3(uint8_t code) {
  const uint32_t bits = (code & 0x80u) << 24 | (code & 0x7fu) << 20;
  return std::bit_cast<float>(bits) * 0x1p120f;
}

// The value of E4M3 that is nearest to `value`, which is within +-448 or NaN.
inline float RoundToE4m3(float value) {
  const float magnitude = std::fabs(value);
  // Sums of this size are multiples of 2^-9.
  const float small = (magnitude + 0x1.8p14f) - 0x1.8p14f;
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  const float large = std::bit_cast<float>((bits + 0x7ffffu + ((bits >> 20) & 1u)) & ~0xfffffu);
  const float rounded = std::copysign(magnitude < 0x1p-6f ? small : large, value);
  return value == value ? rounded : value;
}

inline uint8_t QuantizeFp8(float weight, float scale) {
  return EncodeE4m3(std::clamp(weight / scale, -448.0f, 448.0f));
}
// The code, -limit ... limit.
inline int QuantizeInt(float weight, float scale, int limit) {
  const float bound = static_cast<float>(limit);
  return static_cast<int>(std::clamp(std::nearbyint(weight / scale), -bound, bound));
}
constexpr uint16_t Int6Scale(float largest) {
  const uint16_t scale = FloatToBf16(largest / 31.0f);
  return scale == 0 ? FloatToBf16(1.0f) : scale;
}

}  // namespace tandem
