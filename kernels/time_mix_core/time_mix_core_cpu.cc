#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/linear/linear_cpu.h"
#include "kernels/replay/replay.h"
#include "kernels/shift_cpu.h"
#include "kernels/thread_pool.h"
#include "kernels/time_mix_core/time_mix_core.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/time_mix_core/time_mix_core_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/norm-inl.h"
#include "kernels/simd-inl.h"
#include "kernels/time_mix_core/wkv-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

inline constexpr float kGroupNormEps = 64e-5f;
inline constexpr float kSmallestNorm = 1e-12f;
inline constexpr float kDecayScale = 0.6065306597126334f;  // e^-0.5

// The four planes of scratch: second low-rank factors first, then what the recurrence reads.
enum Plane { kDecay = 0, kB = 1, kKappa = 2, kGate = 3 };

HWY_INLINE float* PlaneAt(const TimeMixCoreArgs& args, Plane plane, size_t at) {
  return args.scratch.data + static_cast<size_t>(plane) * args.rows * args.width + at;
}

// Rows [first, end) of one head's 64 outputs of a second low-rank factor.
void SecondFactor(const TimeMixCoreArgs& args, const Matrix& weight, const View<const float>& low,
                  Plane plane, int head, int first, int end) {
  const size_t count = static_cast<size_t>(args.rows) * args.width;
  const LinearArgs linear = WholeRows(args.rows, weight, low, {PlaneAt(args, plane, 0), count});
  constexpr int kBlocks = kHead / kLinearBlock;
  LinearPart(linear, head * kBlocks, (head + 1) * kBlocks, first, end);
}

// v and v_first of one row of one head; `mix` holds v_low v2.
HWY_INLINE void MixValue(const TimeMixCoreArgs& args, size_t channel, size_t at, const float* mix) {
  for (size_t c = 0; c < kHead; c += 16) {
    const F16 v = Load16(args.v.data + at + c);
    if (args.v2.rows == 0) {
      Store16(v, args.v_first.data + at + c);
      continue;
    }
    const F16 share = Sigmoid16(Load16(args.v0.data + channel + c) + Load16(mix + c));
    const F16 v_first = Load16(args.v_first.data + at + c);
    Store16(Fma16(v_first - v, share, v), args.v.data + at + c);
  }
}

// Decay, b, kappa and k of one row of one head.
HWY_INLINE void PrepareRow(const TimeMixCoreArgs& args, size_t channel, size_t at) {
  float *decay = PlaneAt(args, kDecay, at), *b = PlaneAt(args, kB, at),
        *kappa = PlaneAt(args, kKappa, at);
  float* k = args.k.data + at;
  MixValue(args, channel, at, kappa);
  F16 squares = Set16(0.0f);
  for (size_t c = 0; c < kHead; c += 16) {
    const F16 kk = Load16(k + c) * Load16(args.k_k.data + channel + c);
    squares = Fma16(kk, kk, squares);
    Store16(kk, kappa + c);
  }
  const F16 scale = Set16(1.0f / std::max(std::sqrt(Sum16(squares)), kSmallestNorm));
  const F16 one = Set16(1.0f);
  for (size_t c = 0; c < kHead; c += 16) {
    const F16 w = Load16(args.w0.data + channel + c) + Load16(decay + c);
    Store16(Exp16(Set16(-kDecayScale) * Sigmoid16(w)), decay + c);
    const F16 a = Sigmoid16(Load16(args.a0.data + channel + c) + Load16(b + c));
    const F16 normed = Load16(kappa + c) * scale;
    Store16(normed, kappa + c);
    Store16(normed * a, b + c);
    Store16(Load16(k + c) * Fma16(a - one, Load16(args.k_a.data + channel + c), one), k + c);
  }
}

// Group norm, bonus and gate of one row of one head.
HWY_INLINE void FinishRow(const TimeMixCoreArgs& args, size_t channel, size_t at) {
  float* y = args.y.data + at;
  NormRow(y, args.ln_weight.data + channel, args.ln_bias.data + channel, kHead, kGroupNormEps, y);
  F16 products = Set16(0.0f);
  for (size_t c = 0; c < kHead; c += 16) {
    const F16 rk = Load16(args.r.data + at + c) * Load16(args.k.data + at + c);
    products = Fma16(rk, Load16(args.r_k.data + channel + c), products);
  }
  const F16 bonus = Set16(Sum16(products));
  const float* gate = PlaneAt(args, kGate, at);
  for (size_t c = 0; c < kHead; c += 16) {
    const F16 sum = Fma16(bonus, Load16(args.v.data + at + c), Load16(y + c));
    Store16(sum * Load16(gate + c), y + c);
  }
}

// Rows [first, end) of one head from the projections to what the recurrence reads.
void PrepareRows(const TimeMixCoreArgs& args, int head, int first, int end) {
  SecondFactor(args, args.w2, args.w_low, kDecay, head, first, end);
  SecondFactor(args, args.a2, args.a_low, kB, head, first, end);
  SecondFactor(args, args.g2, args.g_low, kGate, head, first, end);
  if (args.v2.rows > 0) SecondFactor(args, args.v2, args.v_low, kKappa, head, first, end);
  const size_t width = static_cast<size_t>(args.width);
  const size_t channel = static_cast<size_t>(head) * kHead;
  for (int t = first; t < end; ++t) PrepareRow(args, channel, t * width + channel);
}

WkvRows RowsAt(const TimeMixCoreArgs& args, size_t at) {
  return {.stride = static_cast<size_t>(args.width),
          .decay = PlaneAt(args, kDecay, at),
          .k = args.k.data + at,
          .v = args.v.data + at,
          .b = PlaneAt(args, kB, at),
          .kappa = PlaneAt(args, kKappa, at),
          .r = args.r.data + at};
}

// The other four rows of the log entries of a head's provisional rows; WkvHead has written u.
void LogRows(const TimeMixCoreArgs& args, size_t channel, int first, int end, float* log) {
  const size_t width = static_cast<size_t>(args.width);
  for (int t = first; t < end; ++t, log += 5 * width) {
    const size_t at = t * width + channel;
    std::memcpy(log, PlaneAt(args, kDecay, at), kHead * sizeof(float));
    std::memcpy(log + width, args.k.data + at, kHead * sizeof(float));
    std::memcpy(log + 2 * width, args.v.data + at, kHead * sizeof(float));
    std::memcpy(log + 4 * width, PlaneAt(args, kB, at), kHead * sizeof(float));
  }
}

void ReplayLog(const WkvState& wkv, int slot, int accepted, int head, int width) {
  float* state =
      wkv.committed + slot * wkv.committed_stride + static_cast<size_t>(head) * kHead * kHead;
  const size_t row = static_cast<size_t>(width);
  const float* log = wkv.log + slot * wkv.log_stride + static_cast<size_t>(head) * kHead;
  for (int i = 0; i < ClampAccepted(accepted); ++i) ReplayHead(state, log + i * 5 * row, row);
}

// One head of one lane, from replay to log.
void RunHead(const TimeMixCoreArgs& args, int lane, int head) {
  constexpr int kSpan = 32;  // rows whose inputs stay in the cache between the steps
  const int slot = args.lanes.slots[lane];
  ReplayLog(args.wkv, slot, args.lanes.accepted[slot], head, args.width);
  float* state = args.wkv.committed + slot * args.wkv.committed_stride +
                 static_cast<size_t>(head) * kHead * kHead;
  HWY_ALIGN float provisional[kHead * kHead];
  const size_t width = static_cast<size_t>(args.width);
  const size_t channel = static_cast<size_t>(head) * kHead;
  float* log = args.wkv.log + slot * args.wkv.log_stride + channel;
  const int end = args.lanes.offsets[lane + 1];
  const int certain_end = end - args.lanes.provisional[lane];
  for (int first = args.lanes.offsets[lane], next = 0; first < end; first = next) {
    // The drafts go along with the last certain rows.
    next = certain_end - first > kSpan ? first + kSpan : end;
    PrepareRows(args, head, first, next);
    const size_t at = first * width + channel;
    WkvHead({.state = state,
             .provisional = provisional,
             .certain = std::min(next, certain_end) - first,
             .count = next - first,
             .y = args.y.data + at,
             .u = log + 3 * width,
             .u_stride = 5 * width},
            RowsAt(args, at));
    for (int t = first; t < next; ++t) FinishRow(args, channel, t * width + channel);
  }
  LogRows(args, channel, certain_end, end, log);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(RunHead);
HWY_EXPORT(ReplayLog);

void TimeMixCoreCpu(const TimeMixCoreArgs& args, ThreadPool& pool) {
  const int heads = args.width / 64;
  pool.ParallelFor(args.lanes.count * heads, [&](int i) {
    HWY_DYNAMIC_DISPATCH(RunHead)(args, i / heads, i % heads);
  });
}

void ReplayCpu(const ReplayArgs& args, ThreadPool& pool) {
  const int heads = args.width / 64;
  pool.ParallelFor(static_cast<int>(args.slots.size) * heads, [&](int i) {
    const int slot = args.slots[i / heads];
    HWY_DYNAMIC_DISPATCH(ReplayLog)(args.wkv, slot, args.accepted[slot], i % heads, args.width);
  });
  for (size_t i = 0; i < args.slots.size; ++i) {
    const int slot = args.slots[i];
    ReplayShift(args.att_shift, slot, args.accepted[slot], args.width);
    ReplayShift(args.ffn_shift, slot, args.accepted[slot], args.width);
  }
}

}  // namespace tandem
#endif  // HWY_ONCE
