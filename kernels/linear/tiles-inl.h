// The loops of a linear op over any weight format. Included once per Highway target.
#if defined(TANDEM_KERNELS_LINEAR_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_LINEAR_TILES_INL_H_
#undef TANDEM_KERNELS_LINEAR_TILES_INL_H_
#else
#define TANDEM_KERNELS_LINEAR_TILES_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/linear/epilogue-inl.h"
#include "kernels/linear/linear_cpu.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// The outputs of a block: the first 16 and the last 16.
struct Halves {
  F16 low, high;
};

// A format's Block is one block of a packed matrix: Block(matrix, block); Load(k), the weights of
// one input as the sums run over them; Address(k), where they begin; Scaled(sum), a finished sum.

// Tiles wide enough to hide the latency of the multiply-adds and small enough to stay in the
// registers.
inline constexpr int kTileRows = kVectorRegisters == 32 ? 12 : 3;
inline constexpr int kSingleRowBlocks = kVectorRegisters == 32 ? 4 : 2;
inline constexpr int kFewRows = kVectorRegisters == 32 ? 4 : 2;
constexpr int TileBlocks(int rows) {
  return rows == 1 ? kSingleRowBlocks : rows <= kFewRows ? kSingleRowBlocks / 2 : 1;
}
// Finishes the sums of one row of a tile whose outputs all exist, without leaving the registers.
template <Epilogue kEpilogue, int kBlocks>
HWY_INLINE void FinishWhole(const Halves* sum, float* y) {
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) {
    float* at = y + b * kLinearBlock;
    Store16(ApplyEpilogue(kEpilogue, WithoutNegativeZero(sum[b].low), at), at);
    Store16(ApplyEpilogue(kEpilogue, WithoutNegativeZero(sum[b].high), at + 16), at + 16);
  }
}

template <class Block, int kBlocks>
HWY_INLINE void FinishRow(const LinearArgs& args, int block, int row, Halves* sum) {
  if (args.x_scales != nullptr) {
    const F16 scale = Set16(args.x_scales[row]);
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) sum[b] = {sum[b].low * scale, sum[b].high * scale};
  }
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) sum[b] = Block(args.weight, block + b).Scaled(sum[b]);
  const int output = block * kLinearBlock;
  const int count = std::min(kBlocks * kLinearBlock, args.weight.rows - output);
  float* y = args.y.data + static_cast<size_t>(row) * args.y_stride + output;
  if (count == kBlocks * kLinearBlock) {
    if (args.epilogue == Epilogue::kStore) return FinishWhole<Epilogue::kStore, kBlocks>(sum, y);
    if (args.epilogue == Epilogue::kAdd) return FinishWhole<Epilogue::kAdd, kBlocks>(sum, y);
    if (args.epilogue == Epilogue::kReluSquare)
      return FinishWhole<Epilogue::kReluSquare, kBlocks>(sum, y);
  }
  HWY_ALIGN float sums[kBlocks * kLinearBlock];
  FinishWhole<Epilogue::kStore, kBlocks>(sum, sums);
  for (int i = 0; i < count; i += 16) FinishSums(args.epilogue, sums + i, count - i, y + i);
}

// kRows rows times kBlocks blocks with all sums in registers. With few rows the weights come from
// far away and pass by once, so the blocks of the next tile are asked for while this one is
// computed.
template <class Block, int kRows, int kBlocks>
HWY_INLINE void Tile(const LinearArgs& args, int block, int row) {
  constexpr bool kPrefetch = kRows <= kFewRows;
  const int cols = args.weight.cols;
  const float* x[kRows];
  for (int r = 0; r < kRows; ++r) x[r] = args.x.data + static_cast<size_t>(row + r) * args.x_stride;
  Halves sum[kRows][kBlocks];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) sum[r][b] = {Set16(0.0f), Set16(0.0f)};
  }
  for (int k = 0; k < cols; ++k) {
    Halves w[kBlocks];
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      const Block weight(args.weight, block + b);
      if constexpr (kPrefetch)
        __builtin_prefetch(Block(args.weight, block + b + kBlocks).Address(k), 0, 2);
      w[b] = weight.Load(k);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F16 input = Set16(x[r][k]);
#pragma GCC unroll 8
      for (int b = 0; b < kBlocks; ++b) {
        sum[r][b].low = Fma16(input, w[b].low, sum[r][b].low);
        sum[r][b].high = Fma16(input, w[b].high, sum[r][b].high);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) FinishRow<Block, kBlocks>(args, block, row + r, sum[r]);
}

// Blocks [first_block, end_block) of kRows rows, kBlocks at a time.
template <class Block, int kRows, int kBlocks>
HWY_NOINLINE void Strip(const LinearArgs& args, int first_block, int end_block, int row) {
  int block = first_block;
  for (; block + kBlocks <= end_block; block += kBlocks)
    Tile<Block, kRows, kBlocks>(args, block, row);
  if constexpr (kBlocks > 1) {
    if (block < end_block) Strip<Block, kRows, kBlocks / 2>(args, block, end_block, row);
  }
}

template <class Block, int kRows>
HWY_INLINE void Remainder(const LinearArgs& args, int first_block, int end_block, int row,
                          int rows) {
  if constexpr (kRows >= 1) {
    if (rows == kRows) {
      Strip<Block, kRows, TileBlocks(kRows)>(args, first_block, end_block, row);
    } else {
      Remainder<Block, kRows - 1>(args, first_block, end_block, row, rows);
    }
  }
}

template <class Block>
void DensePart(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  const int tiles = (end_row - first_row) / kTileRows;
  // A block stays in the nearest cache while the rows pass by.
  for (int block = first_block; tiles > 0 && block < end_block; ++block) {
    for (int t = 0; t < tiles; ++t)
      Strip<Block, kTileRows, 1>(args, block, block + 1, first_row + t * kTileRows);
  }
  const int row = first_row + tiles * kTileRows;
  Remainder<Block, kTileRows - 1>(args, first_block, end_block, row, end_row - row);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
