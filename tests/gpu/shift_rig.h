#pragma once

#include <cstdint>
#include <vector>

#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/replay/replay.h"
#include "kernels/time_mix_in/time_mix_in.h"
#include "tests/gpu/state_rig.h"

namespace tandem {

// Inputs of the projections are h, which differs in the last bits between backends and is then
// rounded to bf16: what the columns of a product may differ by, relative to the sums' size.
inline constexpr float kProductTolerance = 2e-2f;
inline constexpr float kMixTolerance = 2e-5f;

// What both mixing ops share: one token shift. Shows the mixed inputs of the projections, which the
// ops leave in their scratch.
class ShiftRig : public StateRig {
 public:
  ShiftRig(Backend& backend, int width, uint32_t seed)
      : StateRig(backend, width, Stride(width) + 4, kMaxDrafts * Stride(width) + 8, seed) {}

  void Replay(const std::vector<int32_t>& slots, const std::vector<int32_t>& accepted) override {
    Put(slots_, slots);
    Put(accepted_, accepted);
    const size_t wide = Stride(width_);
    // The same op replays a wkv state, which is of no interest here.
    const View<float> wkv = memory_.Out<float>(kRigSlots * wide * 64);
    const View<float> wkv_log = memory_.Out<float>(kRigSlots * kMaxDrafts * 5 * wide);
    backend_.Replay({.width = width_,
                     .slots = slots_.Sub(0, slots.size()),
                     .accepted = accepted_.data,
                     .att_shift = Shift(),
                     .ffn_shift = {.committed = wkv.data,
                                   .committed_stride = wide,
                                   .log = wkv_log.data,
                                   .log_stride = kMaxDrafts * wide},
                     .wkv = {.committed = wkv.data,
                             .committed_stride = wide * 64,
                             .log = wkv_log.data,
                             .log_stride = kMaxDrafts * 5 * wide}});
  }

 protected:
  static size_t Stride(int width) { return static_cast<size_t>(width); }
  ShiftState Shift() const {
    return {.committed = committed_.data,
            .committed_stride = committed_stride_,
            .log = log_.data,
            .log_stride = log_stride_};
  }
  View<const float> Weights(size_t count, float low, float high) {
    return memory_.In(random_.Vector(count, low, high));
  }

  const std::vector<float> x_table_ = random_.Vector(kRigTokens * Stride(width_), -2, 2);
  const View<float> x_ = Buffer(width_), h_ = Buffer(width_);
  const View<const float> ln_weight_ = Weights(Stride(width_), 0.5f, 1.5f);
  const View<const float> ln_bias_ = Weights(Stride(width_), -0.5f, 0.5f);
};

class TimeMixInRig final : public ShiftRig {
 public:
  using ShiftRig::ShiftRig;
  int output_width() const override { return 6 * width_ + 7 * kOutputs; }
  float Tolerance(int column) const override {
    if (column < 6 * width_) return kMixTolerance;
    return kProductTolerance * std::sqrt(static_cast<float>(width_));
  }

 protected:
  std::vector<float> RunRows(const Lanes& lanes, const std::vector<int>& tokens) override {
    const int rows = static_cast<int>(tokens.size());
    const size_t plane = tokens.size() * Stride(width_), outputs = tokens.size() * kOutputs;
    const View<float> mixed = Fresh(mixed_, 6 * plane);
    View<float> y[7];
    for (int i = 0; i < 7; ++i) y[i] = Fresh(y_[i], outputs);
    backend_.TimeMixIn({.rows = rows,
                        .width = width_,
                        .lanes = lanes,
                        .shift = Shift(),
                        .x = Gather(x_table_, tokens, width_, x_),
                        .ln_weight = ln_weight_,
                        .ln_bias = ln_bias_,
                        .mix = mix_,
                        .receptance = weights_[0],
                        .key = weights_[1],
                        .value = weights_[2],
                        .w1 = weights_[3],
                        .a1 = weights_[4],
                        .v1 = weights_[5],
                        .g1 = weights_[6],
                        .h = Fresh(h_, plane),
                        .mixed = mixed,
                        .r = y[0],
                        .k = y[1],
                        .v = y[2],
                        .w_low = y[3],
                        .a_low = y[4],
                        .v_low = y[5],
                        .g_low = y[6]});
    std::vector<std::vector<float>> out(tokens.size());
    for (size_t n = 0; n < 6; ++n) Append(mixed.Sub(n * plane, plane), width_, &out);
    for (const View<float>& part : y) Append(part, kOutputs, &out);
    return Joined(out);
  }

 private:
  static constexpr int kOutputs = 64;  // of every matrix
  Matrix Weight() { return GridMatrix(backend_, random_, kOutputs, width_); }

  const View<const float> mix_ = Weights(6 * Stride(width_), 0, 1);
  const Matrix weights_[7] = {Weight(), Weight(), Weight(), Weight(), Weight(), Weight(), Weight()};
  const View<float> mixed_ = Buffer(6 * width_);
  const View<float> y_[7] = {Buffer(kOutputs), Buffer(kOutputs), Buffer(kOutputs), Buffer(kOutputs),
                             Buffer(kOutputs), Buffer(kOutputs), Buffer(kOutputs)};
};

}  // namespace tandem
