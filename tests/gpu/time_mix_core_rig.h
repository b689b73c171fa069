#pragma once

#include <cstdint>
#include <vector>

#include "kernels/replay/replay.h"
#include "kernels/time_mix_core/time_mix_core.h"
#include "tests/gpu/state_rig.h"

namespace tandem {

// The low-rank inputs are grid values, so that their products are equal on all backends.
class TimeMixCoreRig : public StateRig {
 public:
  TimeMixCoreRig(Backend& backend, int width, uint32_t seed, bool first_layer = false)
      : StateRig(backend, width, Wide(width) * 64 + 4, kMaxDrafts * 5 * Wide(width) + 8, seed),
        first_layer_(first_layer) {}

  int output_width() const override { return 2 * width_; }
  // A group norm scales an error by up to the inverse of its values' size.
  float Tolerance(int) const override { return 3e-4f; }

  void Replay(const std::vector<int32_t>& slots, const std::vector<int32_t>& accepted) override {
    Put(slots_, slots);
    Put(accepted_, accepted);
    // The same op replays the token shifts, which are of no interest here.
    const size_t wide = Wide(width_);
    const View<float> shift = memory_.Out<float>(kRigSlots * wide);
    const View<float> shift_log = memory_.Out<float>(kRigSlots * kMaxDrafts * wide);
    const ShiftState shifts = {.committed = shift.data,
                               .committed_stride = wide,
                               .log = shift_log.data,
                               .log_stride = kMaxDrafts * wide};
    backend_.Replay({.width = width_,
                     .slots = slots_.Sub(0, slots.size()),
                     .accepted = accepted_.data,
                     .att_shift = shifts,
                     .ffn_shift = shifts,
                     .wkv = Wkv()});
  }

 protected:
  std::vector<float> RunRows(const Lanes& lanes, const std::vector<int>& tokens) override {
    const size_t plane = tokens.size() * Wide(width_);
    const View<float> y = Fresh(y_, plane);
    const View<float> v_first =
        first_layer_ ? Fresh(v_first_, plane) : Gather(v_first_table_, tokens, width_, v_first_);
    backend_.TimeMixCore({.rows = static_cast<int>(tokens.size()),
                          .width = width_,
                          .lanes = lanes,
                          .wkv = Wkv(),
                          .w2 = w2_,
                          .a2 = a2_,
                          .v2 = first_layer_ ? Matrix{} : v2_,
                          .g2 = g2_,
                          .w0 = w0_,
                          .a0 = a0_,
                          .v0 = first_layer_ ? View<const float>{} : v0_,
                          .k_k = k_k_,
                          .k_a = k_a_,
                          .r_k = r_k_,
                          .ln_weight = ln_weight_,
                          .ln_bias = ln_bias_,
                          .r = Gather(r_table_, tokens, width_, r_),
                          .k = Gather(k_table_, tokens, width_, k_),
                          .v = Gather(v_table_, tokens, width_, v_),
                          .w_low = Gather(w_table_, tokens, kRank, w_low_),
                          .a_low = Gather(a_table_, tokens, kRank, a_low_),
                          .v_low = Gather(mix_table_, tokens, kRank, v_low_),
                          .g_low = Gather(g_table_, tokens, kRank, g_low_),
                          .v_first = v_first,
                          .scratch = Fresh(scratch_, 4 * plane),
                          .y = y});
    std::vector<std::vector<float>> out(tokens.size());
    Append(y, width_, &out);
    Append(v_first, width_, &out);
    return Joined(out);
  }

 private:
  static constexpr int kRank = 32;
  static size_t Wide(int width) { return static_cast<size_t>(width); }
  WkvState Wkv() const {
    return {.committed = committed_.data,
            .committed_stride = committed_stride_,
            .log = log_.data,
            .log_stride = log_stride_};
  }
  View<const float> Channels(float low, float high) {
    return memory_.In(random_.Vector(Wide(width_), low, high));
  }
  std::vector<float> Table() { return random_.Vector(kRigTokens * Wide(width_), -1, 1); }
  std::vector<float> LowTable() { return GridValues(random_, kRigTokens * kRank); }
  Matrix Factor() { return GridMatrix(backend_, random_, width_, kRank); }

  const bool first_layer_;
  const Matrix w2_ = Factor(), a2_ = Factor(), v2_ = Factor(), g2_ = Factor();
  const View<const float> w0_ = Channels(-2, 2), a0_ = Channels(-2, 2), v0_ = Channels(-2, 2);
  const View<const float> k_k_ = Channels(0, 2), k_a_ = Channels(0, 2), r_k_ = Channels(-1, 1);
  const View<const float> ln_weight_ = Channels(0.5f, 1.5f), ln_bias_ = Channels(-0.5f, 0.5f);
  const std::vector<float> r_table_ = Table(), k_table_ = Table(), v_table_ = Table();
  const std::vector<float> v_first_table_ = Table(), w_table_ = LowTable(), a_table_ = LowTable();
  const std::vector<float> mix_table_ = LowTable(), g_table_ = LowTable();
  const View<float> r_ = Buffer(width_), k_ = Buffer(width_), v_ = Buffer(width_);
  const View<float> w_low_ = Buffer(kRank), a_low_ = Buffer(kRank), v_low_ = Buffer(kRank);
  const View<float> g_low_ = Buffer(kRank), v_first_ = Buffer(width_), y_ = Buffer(width_);
  const View<float> scratch_ = Buffer(4 * width_);
};

class FirstLayerCoreRig final : public TimeMixCoreRig {
 public:
  FirstLayerCoreRig(Backend& backend, int width, uint32_t seed)
      : TimeMixCoreRig(backend, width, seed, true) {}
};

}  // namespace tandem
