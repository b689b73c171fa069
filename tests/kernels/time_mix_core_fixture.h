#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
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

// The formulas for one sequence, token by token, in double.
class CoreOracle final {
 public:
  // `state` [H, 64 key, 64 value].
  CoreOracle(const TimeMixCoreFixture& core, const float* state)
      : core_(core), state_(state, state + kCoreWidth * 64) {}

  std::vector<double> Step(const CoreInputs& in, int row) {
    const size_t at = static_cast<size_t>(row) * kCoreWidth;
    std::vector<double> y(kCoreWidth);
    for (size_t head = 0; head < kCoreHeads; ++head) StepHead(in, row, at, head * 64, &y);
    return y;
  }

  void ExpectState(const float* actual) const {
    for (size_t i = 0; i < state_.size(); ++i) EXPECT_NEAR(actual[i], state_[i], 1e-4) << i;
  }

 private:
  static double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

  static double Low(const TestMatrix& matrix, size_t output, const std::vector<float>& low,
                    int row) {
    double sum = 0;
    for (int i = 0; i < kLowRank; ++i) {
      sum += low[static_cast<size_t>(row) * kLowRank + static_cast<size_t>(i)] *
             static_cast<double>(matrix.At(static_cast<int>(output), i));
    }
    return sum;
  }

  void StepHead(const CoreInputs& in, int row, size_t at, size_t head, std::vector<double>* y) {
    double decay[64], a[64], g[64], k[64], v[64], kappa[64], u[64], out[64];
    double squares = 0;
    for (size_t i = 0; i < 64; ++i) {
      const size_t c = head + i;
      decay[i] =
          std::exp(-0.6065306597126334 * Sigmoid(core_.w0[c] + Low(core_.w2, c, in.w_low, row)));
      a[i] = Sigmoid(core_.a0[c] + Low(core_.a2, c, in.a_low, row));
      g[i] = Low(core_.g2, c, in.g_low, row);
      kappa[i] = in.k[at + c] * static_cast<double>(core_.k_k[c]);
      squares += kappa[i] * kappa[i];
      k[i] = in.k[at + c] * (1 + (a[i] - 1) * core_.k_a[c]);
      v[i] = in.v[at + c];
      if (!core_.first_layer()) {
        v[i] +=
            (in.v_first[at + c] - v[i]) * Sigmoid(core_.v0[c] + Low(core_.v2, c, in.v_low, row));
      }
    }
    for (double& value : kappa) value /= std::max(std::sqrt(squares), 1e-12);
    double* s = state_.data() + head * 64;
    for (size_t m = 0; m < 64; ++m) {
      u[m] = 0;
      for (size_t j = 0; j < 64; ++j) u[m] -= s[j * 64 + m] * kappa[j];
    }
    double mean = 0, variance = 0, bonus = 0;
    for (size_t m = 0; m < 64; ++m) {
      out[m] = 0;
      for (size_t j = 0; j < 64; ++j) {
        double& cell = s[j * 64 + m];
        cell = cell * decay[j] + u[m] * kappa[j] * a[j] + v[m] * k[j];
        out[m] += cell * in.r[at + head + j];
      }
      mean += out[m] / 64;
      bonus += in.r[at + head + m] * k[m] * core_.r_k[head + m];
    }
    for (const double value : out) variance += (value - mean) * (value - mean) / 64;
    for (size_t m = 0; m < 64; ++m) {
      const double normed =
          (out[m] - mean) / std::sqrt(variance + 64e-5) * core_.ln_weight[head + m];
      (*y)[head + m] = (normed + core_.ln_bias[head + m] + bonus * v[m]) * g[m];
    }
  }

  const TimeMixCoreFixture& core_;
  std::vector<double> state_;
};

}  // namespace tandem
