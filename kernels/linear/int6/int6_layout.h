#pragma once

#include <cstddef>

#include "kernels/linear/quantize.h"

// The CPU layout of Int6: [N / 32 blocks][ceil(K / 2) pairs of inputs][48 bytes], then [N / 32
// blocks][ceil(K / 64) groups][16] words of two bf16 scales: outputs j and 16 + j. Of the 48 bytes,
// the first 16 are for the first input of the pair: byte j holds the upper 4 bits of u of output j,
// and above them those of output 16 + j; the next 16 are for the second input; the last 16 hold the
// lower 2 bits: byte j, from the low bits up, outputs j and 16 + j of the first input, then of the
// second. N and K are padded.
namespace tandem {

inline constexpr size_t kInt6PairBytes = 48;

inline size_t Int6PairsBytes(int cols) {
  return static_cast<size_t>((cols + 1) / 2) * kInt6PairBytes;
}
inline size_t Int6Groups(int cols) {
  return static_cast<size_t>((cols + kInt6Group - 1) / kInt6Group);
}

}  // namespace tandem
