#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear.h"

// The dense layout. A matrix is cut into tiles of 16 outputs and these along the inputs into steps;
// it is [tiles][steps][kBytes], where format Fp8 or Int8 is followed by a fp32 scale per output,
// [tiles * 16]. A step holds, for every 16 inputs, what the 32 lanes of a warp feed to one mma
// m16n8k16 as its 16 x 16 operand. Lane 4 g + q has outputs g and g + 8 and inputs 4 q ... 4 q + 3:
// the inputs are permuted against the instruction's own numbering, for the activations alike, so
// that a lane's weights and its activations are consecutive in memory. Register i of the operand is
// output g + 8 (i % 2) and inputs 4 q + 2 (i / 2) and the next, in the low and the high half.
//
//   Bf16  32 inputs: [2][lane] four words, the registers
//   Fp8   64 inputs: [4][lane] two words, one per output, see PackFp8
//   Int8  64 inputs: [4][lane] two words, one per output, a byte per input: sign and magnitude
//   Int6  64 inputs: [4][lane] a word of upper nibbles, [2][lane] a word of lower pairs of bits,
//   see
//         PackInt6, [8] words of two bf16 scales: outputs g and g + 8

namespace tandem {

inline constexpr int kTileOutputs = 16;
inline constexpr int kMmaInputs = 16;

template <WeightFormat kFormat>
struct DenseStep {
  static constexpr int kInputs = 64;
  static constexpr int kBytes = 1024;
  static constexpr bool kRowScale = true;
};
template <>
struct DenseStep<WeightFormat::kBf16> {
  static constexpr int kInputs = 32;
  static constexpr int kBytes = 1024;
  static constexpr bool kRowScale = false;
};
template <>
struct DenseStep<WeightFormat::kInt6> {
  static constexpr int kInputs = 64;
  static constexpr int kBytes = 800;
  static constexpr bool kRowScale = false;
};

// Words of an Int6 step before its pairs of bits and before its scales.
inline constexpr int kInt6LowWords = 128;
inline constexpr int kInt6ScaleWords = 192;

template <WeightFormat kFormat>
struct FormatTag {
  static constexpr WeightFormat value = kFormat;
};
// Calls body(FormatTag) of a format known at run time.
#pragma nv_exec_check_disable
template <class Body>
__host__ __device__ inline void WithFormat(WeightFormat format, const Body& body) {
  switch (format) {
    case WeightFormat::kBf16:
      return body(FormatTag<WeightFormat::kBf16>());
    case WeightFormat::kFp8:
      return body(FormatTag<WeightFormat::kFp8>());
    case WeightFormat::kInt8:
      return body(FormatTag<WeightFormat::kInt8>());
    case WeightFormat::kInt6:
      return body(FormatTag<WeightFormat::kInt6>());
  }
}

// Two halves of a word with two E4M3 codes each: the first as bits 15 (sign) and 10 ... 4 (the
// rest), the second as bits 11 (sign), 14 ... 12 and 3 ... 0 (the rest): so both become bf16 bits
// by shifts of 4, times 2^120.
__host__ __device__ inline uint32_t PackFp8Half(uint32_t first, uint32_t second) {
  return (first & 0x80u) << 8 | (first & 0x7fu) << 4 | (second & 0x80u) << 4 |
         (second & 0x70u) << 8 | (second & 0x0fu);
}
// Codes of inputs 4 q ... 4 q + 3.
__host__ __device__ inline uint32_t PackFp8(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
  return PackFp8Half(c0, c2) | PackFp8Half(c1, c3) << 16;
}
__host__ __device__ inline void ExpandFp8Bits(uint32_t word, uint32_t* first, uint32_t* second) {
  *first = word & 0x87f087f0u;
  *second = ((word << 4) & 0x80f080f0u) | ((word >> 4) & 0x07000700u);
}

// Upper nibbles and lower pairs of bits of code u of pair i, low or high half. Two groups of four
// pairs share a word of low bits.
__host__ __device__ inline uint32_t PackInt6High(uint32_t u, int pair, int half) {
  return (u >> 2) << (4 * pair + 16 * half);
}
__host__ __device__ inline uint32_t PackInt6Low(uint32_t u, int group, int pair, int half) {
  return (u & 3u) << (8 * group + 2 * pair + 16 * half);
}
// The pair as two bf16 of 128 + u.
__host__ __device__ inline uint32_t ExpandInt6Bits(uint32_t high, uint32_t low, int group,
                                                   int pair) {
  const uint32_t upper = pair == 0 ? high << 2 : high >> (4 * pair - 2);
  const uint32_t lower = low >> (8 * group + 2 * pair);
  return (upper & 0x003c003cu) | 0x43004300u | (lower & 0x00030003u);
}

}  // namespace tandem
