#pragma once

#include <utility>
#include <vector>

#include "kernels/replay/replay.h"
#include "kernels/time_mix_core/time_mix_core.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {

inline constexpr int kCoreHeads = 2;
inline constexpr int kCoreWidth = 64 * kCoreHeads;
inline constexpr int kCoreSlots = 3;
inline constexpr int kLowRank = 7;
inline constexpr size_t kStateStride = kCoreWidth * 64 + 9;
inline constexpr size_t kCoreLogStride = kMaxDrafts * 5 * kCoreWidth + 2;

// What the op reads per token; all [T, C] but the low-rank inputs, [T, kLowRank].
struct CoreInputs {
  std::vector<float> r, k, v, v_first, w_low, a_low, v_low, g_low;

  CoreInputs Rows(int first, int count) const {
    const auto wide = [&](const std::vector<float>& all) {
      return RowsOf(all, first, count, kCoreWidth);
    };
    const auto low = [&](const std::vector<float>& all) {
      return RowsOf(all, first, count, kLowRank);
    };
    return {wide(r),    wide(k),    wide(v),    wide(v_first),
            low(w_low), low(a_low), low(v_low), low(g_low)};
  }
};

struct CoreOutputs {
  std::vector<float> y, v_first;
};

// One layer's weights and the states of its slots.
class TimeMixCoreFixture final {
 public:
  TimeMixCoreFixture(uint32_t seed, bool first_layer) : first_layer_(first_layer), random_(seed) {}

  CoreInputs Draw(int rows) {
    const size_t wide = static_cast<size_t>(rows) * kCoreWidth;
    const size_t low = static_cast<size_t>(rows) * kLowRank;
    return {.r = random_.Vector(wide, -1, 1),
            .k = random_.Vector(wide, -1, 1),
            .v = random_.Vector(wide, -1, 1),
            .v_first = random_.Vector(wide, -1, 1),
            .w_low = random_.Vector(low, -1, 1),
            .a_low = random_.Vector(low, -1, 1),
            .v_low = random_.Vector(low, -1, 1),
            .g_low = random_.Vector(low, -1, 1)};
  }

  CoreOutputs Run(const TestLanes& lanes, CoreInputs in) {
    const size_t wide = static_cast<size_t>(lanes.rows()) * kCoreWidth;
    CoreOutputs out = {.y = Poisoned(wide), .v_first = first_layer_ ? Poisoned(wide) : in.v_first};
    std::vector<float> scratch = Poisoned(4 * wide);
    backend_->TimeMixCore({.rows = lanes.rows(),
                           .width = kCoreWidth,
                           .lanes = lanes.lanes(),
                           .wkv = Wkv(),
                           .w2 = w2.packed(),
                           .a2 = a2.packed(),
                           .v2 = first_layer_ ? Matrix{} : v2.packed(),
                           .g2 = g2.packed(),
                           .w0 = ViewOf(std::as_const(w0)),
                           .a0 = ViewOf(std::as_const(a0)),
                           .v0 = ViewOf(std::as_const(v0)),
                           .k_k = ViewOf(std::as_const(k_k)),
                           .k_a = ViewOf(std::as_const(k_a)),
                           .r_k = ViewOf(std::as_const(r_k)),
                           .ln_weight = ViewOf(std::as_const(ln_weight)),
                           .ln_bias = ViewOf(std::as_const(ln_bias)),
                           .r = ViewOf(std::as_const(in.r)),
                           .k = ViewOf(in.k),
                           .v = ViewOf(in.v),
                           .w_low = ViewOf(std::as_const(in.w_low)),
                           .a_low = ViewOf(std::as_const(in.a_low)),
                           .v_low = ViewOf(std::as_const(in.v_low)),
                           .g_low = ViewOf(std::as_const(in.g_low)),
                           .v_first = ViewOf(out.v_first),
                           .scratch = ViewOf(scratch),
                           .y = ViewOf(out.y)});
    return out;
  }

  // The Replay op on one slot, with shifts that nobody looks at.
  void Replay(int32_t slot, int32_t accepted) {
    std::vector<int32_t> counts(kCoreSlots, 0);
    counts[static_cast<size_t>(slot)] = accepted;
    std::vector<float> shift(kCoreSlots * kCoreWidth),
        shift_log(kCoreSlots * kMaxDrafts * kCoreWidth);
    const ShiftState shifts = {.committed = shift.data(),
                               .committed_stride = kCoreWidth,
                               .log = shift_log.data(),
                               .log_stride = kMaxDrafts * kCoreWidth};
    backend_->Replay({.width = kCoreWidth,
                      .slots = {&slot, 1},
                      .accepted = counts.data(),
                      .att_shift = shifts,
                      .ffn_shift = shifts,
                      .wkv = Wkv()});
  }

  bool first_layer() const { return first_layer_; }

 private:
  WkvState Wkv() {
    return {.committed = committed.data(),
            .committed_stride = kStateStride,
            .log = log.data(),
            .log_stride = kCoreLogStride};
  }

  const bool first_layer_;
  Random random_;
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);

 public:
  TestMatrix w2{*backend_, random_, kCoreWidth, kLowRank};
  TestMatrix a2{*backend_, random_, kCoreWidth, kLowRank};
  TestMatrix v2{*backend_, random_, kCoreWidth, kLowRank};
  TestMatrix g2{*backend_, random_, kCoreWidth, kLowRank};
  std::vector<float> w0 = random_.Vector(kCoreWidth, -2, 2), a0 = random_.Vector(kCoreWidth, -2, 2);
  std::vector<float> v0 = random_.Vector(kCoreWidth, -2, 2);
  std::vector<float> k_k = random_.Vector(kCoreWidth, 0, 2), k_a = random_.Vector(kCoreWidth, 0, 2);
  std::vector<float> r_k = random_.Vector(kCoreWidth, -1, 1);
  std::vector<float> ln_weight = random_.Vector(kCoreWidth, 0.5f, 1.5f);
  std::vector<float> ln_bias = random_.Vector(kCoreWidth, -0.5f, 0.5f);
  std::vector<float> committed = random_.Vector(kCoreSlots * kStateStride, -1, 1);
  std::vector<float> log = Poisoned(kCoreSlots * kCoreLogStride);
};

}  // namespace tandem
