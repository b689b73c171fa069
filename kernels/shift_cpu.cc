#include "kernels/shift_cpu.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/shift_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

HWY_INLINE void MixRow(const ShiftMix& args, int row, const float* previous) {
  const size_t width = static_cast<size_t>(args.width);
  const size_t plane = static_cast<size_t>(args.rows) * width;
  const float* h = args.h.data + row * width;
  float* out = args.mixed.data + row * width;
  for (size_t c = 0; c < width; c += 16) {
    const F16 current = Load16(h + c);
    const F16 delta = Load16(previous + c) - current;
    for (int n = 0; n < args.mixes; ++n) {
      Store16(Fma16(delta, Load16(args.mix.data + n * width + c), current), out + n * plane + c);
    }
  }
}

// Norms rows [first, end) and mixes those whose previous row lies among them; returns nothing for
// row `first` when its previous row belongs to the span before: MixSpanStart does that one after
// all spans are normed.
void NormAndMixRows(const ShiftMix& args, int first, int end) {
  const size_t width = static_cast<size_t>(args.width);
  int lane = static_cast<int>(std::upper_bound(args.lanes.offsets,
                                               args.lanes.offsets + args.lanes.count, first) -
                              args.lanes.offsets) -
             1;
  for (int row = first; row < end; ++row) {
    while (row >= args.lanes.offsets[lane + 1]) ++lane;
    NormRow(args.x.data + row * width, args.ln_weight.data, args.ln_bias.data, args.width,
            kLayerNormEps, args.h.data + row * width);
    if (row == args.lanes.offsets[lane]) {
      MixRow(args, row,
             args.shift.committed + args.lanes.slots[lane] * args.shift.committed_stride);
    } else if (row > first) {
      MixRow(args, row, args.h.data + (row - 1) * width);
    }
  }
}

void MixSpanStart(const ShiftMix& args, int row) {
  if (std::binary_search(args.lanes.offsets, args.lanes.offsets + args.lanes.count, row)) return;
  MixRow(args, row, args.h.data + static_cast<size_t>(row - 1) * args.width);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {
namespace {

HWY_EXPORT(NormAndMixRows);
HWY_EXPORT(MixSpanStart);

// Rows of one piece of work; fewer cost more to hand out than to do.
constexpr int kSpan = 16;

void CommitShift(const ShiftMix& args) {
  const size_t width = static_cast<size_t>(args.width);
  const size_t bytes = width * sizeof(float);
  for (int b = 0; b < args.lanes.count; ++b) {
    const int slot = args.lanes.slots[b];
    const int end = args.lanes.offsets[b + 1];
    const int provisional = args.lanes.provisional[b];
    const float* rows = args.h.data + (end - provisional) * width;
    std::memcpy(args.shift.committed + slot * args.shift.committed_stride, rows - width, bytes);
    std::memcpy(args.shift.log + slot * args.shift.log_stride, rows, provisional * bytes);
  }
}

}  // namespace

void ReplayShift(const ShiftState& shift, int slot, int accepted, int width) {
  const int count = ClampAccepted(accepted);
  if (count == 0) return;
  const float* entry = shift.log + slot * shift.log_stride + static_cast<size_t>(count - 1) * width;
  std::memcpy(shift.committed + slot * shift.committed_stride, entry,
              static_cast<size_t>(width) * sizeof(float));
}

void ShiftMixCpu(const ShiftMix& args, ThreadPool& pool) {
  for (int b = 0; b < args.lanes.count; ++b) {
    const int slot = args.lanes.slots[b];
    ReplayShift(args.shift, slot, args.lanes.accepted[slot], args.width);
  }
  const int spans = (args.rows + kSpan - 1) / kSpan;
  pool.ParallelFor(spans, [&](int span) {
    const int first = span * kSpan;
    HWY_DYNAMIC_DISPATCH(NormAndMixRows)(args, first, std::min(first + kSpan, args.rows));
  });
  for (int span = 1; span < spans; ++span) HWY_DYNAMIC_DISPATCH(MixSpanStart)(args, span * kSpan);
  CommitShift(args);
}

}  // namespace tandem
#endif  // HWY_ONCE
