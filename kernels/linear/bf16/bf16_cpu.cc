#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/linear/format_cpu.h"
#include "kernels/linear/linear_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/bf16/bf16_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/linear/epilogue-inl.h"
#include "kernels/simd-inl.h"

// Packed bf16: [N / 32 blocks][K inputs][16 words of 32 bits], word j holding the weight of output
// j of the block in its low half and that of output 16 + j in its high half; N is padded with
// zeros. One load gives two vectors of 16 outputs, and the weights of one input lie side by side,
// so inputs can be skipped.

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// Tiles wide enough to hide the latency of the multiply-adds and small enough to stay in the
// registers.
inline constexpr int kTileRows = kVectorRegisters == 32 ? 12 : 3;
inline constexpr int kSingleRowBlocks = kVectorRegisters == 32 ? 4 : 2;
inline constexpr int kFewRows = kVectorRegisters == 32 ? 4 : 2;
constexpr int TileBlocks(int rows) {
  return rows == 1 ? kSingleRowBlocks : rows <= kFewRows ? kSingleRowBlocks / 2 : 1;
}
// Longest row whose non-zero inputs are listed on the stack.
inline constexpr int kMostSparseInputs = 16384;

HWY_INLINE const uint32_t* BlockAt(const Matrix& matrix, int block) {
  return static_cast<const uint32_t*>(matrix.data) + static_cast<size_t>(block) * matrix.cols * 16;
}

struct Halves {
  F16 low, high;
};

HWY_INLINE Halves LoadHalves(const uint32_t* words) {
  const U32 d;
  Halves halves;
  for (size_t i = 0; i < kParts; ++i) {
    const auto word = hn::LoadU(d, words + i * kLanes);
    halves.low.part[i] = hn::BitCast(F32(), hn::ShiftLeft<16>(word));
    halves.high.part[i] = hn::BitCast(F32(), hn::And(word, hn::Set(d, 0xffff0000u)));
  }
  return halves;
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

template <int kBlocks>
HWY_INLINE void FinishRow(const LinearArgs& args, int block, int row, const Halves* sum) {
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
template <int kRows, int kBlocks>
HWY_INLINE void Tile(const LinearArgs& args, int block, int row) {
  constexpr bool kPrefetch = kRows <= kFewRows;
  const int cols = args.weight.cols;
  const size_t block_words = static_cast<size_t>(cols) * 16;
  const uint32_t* weight = BlockAt(args.weight, block);
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
      const uint32_t* words = weight + b * block_words + k * 16;
      if constexpr (kPrefetch) __builtin_prefetch(words + kBlocks * block_words, 0, 2);
      w[b] = LoadHalves(words);
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
  for (int r = 0; r < kRows; ++r) FinishRow<kBlocks>(args, block, row + r, sum[r]);
}

// Blocks [first_block, end_block) of kRows rows, kBlocks at a time.
template <int kRows, int kBlocks>
HWY_NOINLINE void Strip(const LinearArgs& args, int first_block, int end_block, int row) {
  int block = first_block;
  for (; block + kBlocks <= end_block; block += kBlocks) Tile<kRows, kBlocks>(args, block, row);
  if constexpr (kBlocks > 1) {
    if (block < end_block) Strip<kRows, kBlocks / 2>(args, block, end_block, row);
  }
}

template <int kRows>
HWY_INLINE void Remainder(const LinearArgs& args, int first_block, int end_block, int row,
                          int rows) {
  if constexpr (kRows >= 1) {
    if (rows == kRows) {
      Strip<kRows, TileBlocks(kRows)>(args, first_block, end_block, row);
    } else {
      Remainder<kRows - 1>(args, first_block, end_block, row, rows);
    }
  }
}

void DensePart(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  const int tiles = (end_row - first_row) / kTileRows;
  // A block stays in the nearest cache while the rows pass by.
  for (int block = first_block; tiles > 0 && block < end_block; ++block) {
    for (int t = 0; t < tiles; ++t)
      Strip<kTileRows, 1>(args, block, block + 1, first_row + t * kTileRows);
  }
  const int row = first_row + tiles * kTileRows;
  Remainder<kTileRows - 1>(args, first_block, end_block, row, end_row - row);
}

// Writes the indices of the non-zero inputs of a row in ascending order; `indices` has room for 16
// more than `cols`.
int ListNonZero(const float* x, int cols, int32_t* indices) {
  const F32 d;
  const I32 di;
  auto index = hn::Iota(di, 0);
  const auto step = hn::Set(di, static_cast<int32_t>(kLanes));
  int count = 0;
  int k = 0;
  for (; k + static_cast<int>(kLanes) <= cols; k += static_cast<int>(kLanes)) {
    // Not(Eq), because on x86 Ne is false for NaN.
    const auto non_zero = hn::RebindMask(di, hn::Not(hn::Eq(hn::LoadU(d, x + k), hn::Zero(d))));
    hn::StoreU(hn::Compress(index, non_zero), di, indices + count);
    count += static_cast<int>(hn::CountTrue(di, non_zero));
    index = hn::Add(index, step);
  }
  for (; k < cols; ++k) {
    indices[count] = k;
    count += x[k] != 0.0f ? 1 : 0;
  }
  return count;
}

// Listed inputs between asking for weights and using them: no hardware guesses this order.
inline constexpr int kSparseAhead = 12;

// One row times kBlocks blocks over the listed inputs.
template <int kBlocks>
HWY_NOINLINE void SparseTile(const LinearArgs& args, int block, int row, const int32_t* indices,
                             int count) {
  const size_t block_words = static_cast<size_t>(args.weight.cols) * 16;
  const uint32_t* weight = BlockAt(args.weight, block);
  const float* x = args.x.data + static_cast<size_t>(row) * args.x_stride;
  Halves sum[kBlocks];
#pragma GCC unroll 8
  for (int b = 0; b < kBlocks; ++b) sum[b] = {Set16(0.0f), Set16(0.0f)};
  for (int i = 0; i < count; ++i) {
    const size_t k = static_cast<size_t>(indices[i]);
    const size_t ahead = static_cast<size_t>(indices[std::min(i + kSparseAhead, count - 1)]);
    const F16 input = Set16(x[k]);
#pragma GCC unroll 8
    for (int b = 0; b < kBlocks; ++b) {
      __builtin_prefetch(weight + b * block_words + ahead * 16);
      const Halves w = LoadHalves(weight + b * block_words + k * 16);
      sum[b].low = Fma16(input, w.low, sum[b].low);
      sum[b].high = Fma16(input, w.high, sum[b].high);
    }
  }
  FinishRow<kBlocks>(args, block, row, sum);
}

void SparsePart(const LinearArgs& args, int first_block, int end_block, int first_row,
                int end_row) {
  int32_t indices[kMostSparseInputs + 16];
  for (int row = first_row; row < end_row; ++row) {
    const float* x = args.x.data + static_cast<size_t>(row) * args.x_stride;
    const int count = ListNonZero(x, args.weight.cols, indices);
    int block = first_block;
    for (; block + kSingleRowBlocks <= end_block; block += kSingleRowBlocks) {
      SparseTile<kSingleRowBlocks>(args, block, row, indices, count);
    }
    for (; block < end_block; ++block) SparseTile<1>(args, block, row, indices, count);
  }
}

void Part(const LinearArgs& args, int first_block, int end_block, int first_row, int end_row) {
  if (args.sparse && args.weight.cols <= kMostSparseInputs) {
    SparsePart(args, first_block, end_block, first_row, end_row);
  } else {
    DensePart(args, first_block, end_block, first_row, end_row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(Part);

size_t PackedBytes(int rows, int cols) {
  return static_cast<size_t>(LinearBlocks(rows)) * cols * kLinearBlock * sizeof(uint16_t);
}

// Index of the 16-bit half that holds weight [row, col].
size_t HalfIndex(int row, int col, int cols) {
  const int output = row % kLinearBlock;
  const size_t input = static_cast<size_t>(row / kLinearBlock) * cols + col;
  return input * kLinearBlock + static_cast<size_t>(output % 16 * 2 + output / 16);
}

void Pack(void* to, const uint16_t* bf16, int rows, int cols) {
  static_assert(std::endian::native == std::endian::little);
  uint16_t* halves = static_cast<uint16_t*>(to);
  std::memset(to, 0, PackedBytes(rows, cols));
  for (int row = 0; row < rows; ++row) {
    for (int col = 0; col < cols; ++col) {
      halves[HalfIndex(row, col, cols)] = bf16[static_cast<size_t>(row) * cols + col];
    }
  }
}

void UnpackRow(const Matrix& matrix, int row, float* to) {
  const uint16_t* halves = static_cast<const uint16_t*>(matrix.data);
  for (int col = 0; col < matrix.cols; ++col) {
    const uint32_t bits = static_cast<uint32_t>(halves[HalfIndex(row, col, matrix.cols)]) << 16;
    to[col] = std::bit_cast<float>(bits);
  }
}

void DispatchPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                  int end_row) {
  HWY_DYNAMIC_DISPATCH(Part)(args, first_block, end_block, first_row, end_row);
}

}  // namespace

const LinearFormatCpu& LinearBf16Cpu() {
  static constexpr LinearFormatCpu kFormat = {
      .packed_bytes = PackedBytes, .pack = Pack, .unpack_row = UnpackRow, .part = DispatchPart};
  return kFormat;
}

}  // namespace tandem
#endif  // HWY_ONCE
