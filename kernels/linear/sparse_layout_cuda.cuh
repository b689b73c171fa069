#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear.h"

// The layout of a matrix [C, F] with sparse_inputs: neuron by neuron, so that those with zero
// inputs can be left out: [F][channel tiles][kTileBytes]; F is padded to blocks of 64, C to tiles
// of 128. After it Fp8 and Int8 have a scale of fp32 per channel, [channel tiles * 128], and Int6
// one of bf16 per block and channel, [blocks][channel tiles * 128]. A tile is
//
//   Bf16  [128]
//   Fp8   [128] E4M3
//   Int8  [128] code + 128
//   Int6  [16] words of the upper nibbles of 8 channels, [8] words of the lower pairs of bits of
//         16, as in tile_cuda.cuh: channel 8 h + 2 i is pair i of group h % 2, its low half

namespace tandem {

inline constexpr int kChannelTile = 128;
inline constexpr int kNeuronBlock = 64;

template <WeightFormat kFormat>
struct SparseTile {
  static constexpr int kBytes = 128;
};
template <>
struct SparseTile<WeightFormat::kBf16> {
  static constexpr int kBytes = 256;
};
template <>
struct SparseTile<WeightFormat::kInt6> {
  static constexpr int kBytes = 96;
};

// Bytes before the scales.
template <WeightFormat kFormat>
__host__ __device__ inline size_t SparseCodeBytes(int channels, int neurons) {
  const size_t padded = static_cast<size_t>(CeilDiv(neurons, kNeuronBlock)) * kNeuronBlock;
  return padded * CeilDiv(channels, kChannelTile) * SparseTile<kFormat>::kBytes;
}

}  // namespace tandem
