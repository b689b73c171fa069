// A part of a linear op over any weight format, dense or sparse. Included once per Highway target.
#if defined(TANDEM_KERNELS_LINEAR_PART_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_LINEAR_PART_INL_H_
#undef TANDEM_KERNELS_LINEAR_PART_INL_H_
#else
#define TANDEM_KERNELS_LINEAR_PART_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/linear/linear_cpu.h"
#include "kernels/linear/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// Longest row whose non-zero inputs are listed on the stack.
inline constexpr int kMostSparseInputs = 16384;

// Writes the indices of the non-zero inputs of a row in ascending order; `indices` has room for 16
// more than `cols`.
HWY_INLINE int ListNonZero(const float* x, int cols, int32_t* indices) {
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
template <class Block, int kBlocks>
HWY_NOINLINE void SparseTile(const LinearArgs& args, int block, int row, const int32_t* indices,
                             int count) {
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
      const Block weight(args.weight, block + b);
      __builtin_prefetch(weight.Address(ahead));
      const Halves w = weight.Load(k);
      sum[b].low = Fma16(input, w.low, sum[b].low);
      sum[b].high = Fma16(input, w.high, sum[b].high);
    }
  }
  FinishRow<Block, kBlocks>(args, block, row, sum);
}

template <class Block>
void SparsePart(const LinearArgs& args, int first_block, int end_block, int first_row,
                int end_row) {
  int32_t indices[kMostSparseInputs + 16];
  for (int row = first_row; row < end_row; ++row) {
    const float* x = args.x.data + static_cast<size_t>(row) * args.x_stride;
    const int count = ListNonZero(x, args.weight.cols, indices);
    int block = first_block;
    for (; block + kSingleRowBlocks <= end_block; block += kSingleRowBlocks) {
      SparseTile<Block, kSingleRowBlocks>(args, block, row, indices, count);
    }
    for (; block < end_block; ++block) SparseTile<Block, 1>(args, block, row, indices, count);
  }
}

template <class Block>
void FormatPart(const LinearArgs& args, int first_block, int end_block, int first_row,
                int end_row) {
  if (args.weight.sparse_inputs && args.weight.cols <= kMostSparseInputs) {
    SparsePart<Block>(args, first_block, end_block, first_row, end_row);
  } else {
    DensePart<Block>(args, first_block, end_block, first_row, end_row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
