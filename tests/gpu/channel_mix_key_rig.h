#pragma once

#include <vector>

#include "tests/gpu/shift_rig.h"

namespace tandem {

class ChannelMixKeyRig final : public ShiftRig {
 public:
  using ShiftRig::ShiftRig;
  int output_width() const override { return width_ + kOutputs; }
  float Tolerance(int column) const override {
    return column < width_ ? kMixTolerance
                           : kProductTolerance * std::sqrt(static_cast<float>(width_));
  }

 protected:
  std::vector<float> RunRows(const Lanes& lanes, const std::vector<int>& tokens) override {
    const size_t plane = tokens.size() * Stride(width_);
    const View<float> mixed = Fresh(mixed_, plane);
    const View<float> act = Fresh(act_, tokens.size() * kOutputs);
    backend_.ChannelMixKey({.rows = static_cast<int>(tokens.size()),
                            .width = width_,
                            .lanes = lanes,
                            .shift = Shift(),
                            .x = Gather(x_table_, tokens, width_, x_),
                            .ln_weight = ln_weight_,
                            .ln_bias = ln_bias_,
                            .mix = mix_,
                            .key = key_,
                            .h = Fresh(h_, plane),
                            .mixed = mixed,
                            .act = act});
    std::vector<std::vector<float>> out(tokens.size());
    Append(mixed, width_, &out);
    Append(act, kOutputs, &out);
    for (std::vector<float>& row : out) {
      // The sums, where they are positive: their errors do not grow with them.
      for (size_t i = Stride(width_); i < row.size(); ++i) row[i] = std::sqrt(row[i]);
    }
    return Joined(out);
  }

 private:
  static constexpr int kOutputs = 128;

  const View<const float> mix_ = Weights(Stride(width_), 0, 1);
  const Matrix key_ = GridMatrix(backend_, random_, kOutputs, width_);
  const View<float> mixed_ = Buffer(width_), act_ = Buffer(kOutputs);
};

}  // namespace tandem
