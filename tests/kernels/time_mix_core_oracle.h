#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/time_mix_core_fixture.h"

namespace tandem {

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
