#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/linear/tile_cuda.cuh"

// From packed words to the bf16 operands of the tensor cores; every code of every format is a bf16.

namespace tandem {

__device__ inline __nv_bfloat162 AsBf16x2(uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
__device__ inline uint32_t AsBits(__nv_bfloat162 pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ inline void ExpandFp8(uint32_t word, uint32_t* first, uint32_t* second) {
  ExpandFp8Bits(word, first, second);
  const __nv_bfloat162 two_to_120 = AsBf16x2(0x7b807b80u);
  *first = AsBits(__hmul2(AsBf16x2(*first), two_to_120));
  *second = AsBits(__hmul2(AsBf16x2(*second), two_to_120));
}

// Two bytes of sign and magnitude, doubled to both bytes of their halves: +-(128 + m) minus +-128.
__device__ inline uint32_t ExpandInt8(uint32_t doubled) {
  const uint32_t value = (doubled & 0x807f807fu) | 0x43004300u;
  const uint32_t offset = (doubled & 0x80008000u) | 0x43004300u;
  return AsBits(__hsub2(AsBf16x2(value), AsBf16x2(offset)));
}

__device__ inline uint32_t ExpandInt6(uint32_t high, uint32_t low, int group, int pair) {
  const __nv_bfloat162 offset = AsBf16x2(0x43204320u);  // 128 + 32
  return AsBits(__hsub2(AsBf16x2(ExpandInt6Bits(high, low, group, pair)), offset));
}

// The 16 x 16 operand of an mma: 16 outputs, 16 inputs.
struct Weights {
  uint32_t a[4];
};

// Inputs 16 j ... of a tile's step at `step` (shared memory).
template <WeightFormat kFormat>
__device__ inline Weights LoadWeights(const uint8_t* step, int j, int lane) {
  Weights w;
  if constexpr (kFormat == WeightFormat::kBf16) {
    const uint4 words = *reinterpret_cast<const uint4*>(step + (j * kWarp + lane) * 16);
    w = {{words.x, words.y, words.z, words.w}};
  } else if constexpr (kFormat == WeightFormat::kInt6) {
    const uint32_t* words = reinterpret_cast<const uint32_t*>(step);
    const uint32_t high = words[j * kWarp + lane];
    const uint32_t low = words[kInt6LowWords + j / 2 * kWarp + lane];
#pragma unroll
    for (int i = 0; i < 4; ++i) w.a[i] = ExpandInt6(high, low, j % 2, i);
  } else {
    const uint2 words = *reinterpret_cast<const uint2*>(step + (j * kWarp + lane) * 8);
    if constexpr (kFormat == WeightFormat::kFp8) {
      ExpandFp8(words.x, &w.a[0], &w.a[2]);
      ExpandFp8(words.y, &w.a[1], &w.a[3]);
    } else {
      w.a[0] = ExpandInt8(__byte_perm(words.x, 0, 0x1100));
      w.a[1] = ExpandInt8(__byte_perm(words.y, 0, 0x1100));
      w.a[2] = ExpandInt8(__byte_perm(words.x, 0, 0x3322));
      w.a[3] = ExpandInt8(__byte_perm(words.y, 0, 0x3322));
    }
  }
  return w;
}

// The scales of outputs g and g + 8 in a step of Int6.
__device__ inline float2 LoadInt6Scales(const uint8_t* step, int lane) {
  const uint32_t word = reinterpret_cast<const uint32_t*>(step)[kInt6ScaleWords + lane / 4];
  return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
}

// Four activations as two bf16 pieces: x and high + low differ by at most 2^-18 of x. An
// infinite activation counts as NaN.
struct Activations {
  uint32_t high[2];
  uint32_t low[2];
};
__device__ inline Activations Split(const float4& x) {
  Activations b;
  const __nv_bfloat162 first = __floats2bfloat162_rn(x.x, x.y);
  const __nv_bfloat162 second = __floats2bfloat162_rn(x.z, x.w);
  b.high[0] = AsBits(first);
  b.high[1] = AsBits(second);
  b.low[0] = AsBits(__floats2bfloat162_rn(x.x - __low2float(first), x.y - __high2float(first)));
  b.low[1] = AsBits(__floats2bfloat162_rn(x.z - __low2float(second), x.w - __high2float(second)));
  return b;
}

// sum += w b: 16 outputs times 8 rows. sum[i] is output g + 8 (i / 2) and row 2 q + i % 2.
__device__ inline void Mma(float (&sum)[4], const Weights& w, const uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(w.a[0]), "r"(w.a[1]), "r"(w.a[2]), "r"(w.a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace tandem
