#include "common/model/rwkv7.h"

#include <cstddef>
#include <cstdint>

#include "common/base/check.h"
#include "common/model/activations.h"
#include "common/model/weights_layers.h"
#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/channel_mix_value/channel_mix_value.h"
#include "kernels/embed/embed.h"
#include "kernels/head/head.h"
#include "kernels/lanes.h"
#include "kernels/time_mix_core/time_mix_core.h"
#include "kernels/time_mix_in/time_mix_in.h"
#include "kernels/time_mix_out/time_mix_out.h"

namespace tandem {

namespace {

// One pass in progress: the graph, written once for every backend.
class Pass final {
 public:
  Pass(const ModelWeights& weights, const DecodeBatch& batch, const RecurrentState& state,
       const ActivationBuffers& at, const FeatureTap& features)
      : weights_(weights),
        config_(weights.config()),
        state_(state),
        at_(at),
        features_(features),
        backend_(*weights.backend()),
        rows_(batch.rows()),
        lanes_({.count = batch.lanes(),
                .offsets = at.offsets,
                .slots = at.slots,
                .provisional = at.provisional,
                .accepted = state.accepted()}) {}

  void Run() {
    backend_.Embed(
        {.rows = rows_,
         .width = config_.width,
         .tokens = {at_.tokens, static_cast<size_t>(rows_)},
         .table = {weights_.embedding(), static_cast<size_t>(config_.vocab) * config_.width},
         .x = Rows(at_.x, config_.width)});
    for (int i = 0; i < config_.layers; ++i) {
      TimeMix(i);
      ChannelMix(i);
    }
    Head();
  }

 private:
  View<float> Rows(float* data, int width) const {
    return {data, static_cast<size_t>(rows_) * static_cast<size_t>(width)};
  }

  ShiftState Shift(float* committed, float* log) const {
    return {.committed = committed,
            .committed_stride = state_.state_stride(),
            .log = log,
            .log_stride = state_.log_stride()};
  }

  // Where the rows of [h, m1, m2] take part `index`.
  RowTap Tap(int index) const {
    if (!features_.known()) return {};
    const size_t width = static_cast<size_t>(config_.width);
    return {.rows = at_.feature_rows, .offset = index * width, .stride = 3 * width};
  }

  void TimeMix(int index) {
    const LayerWeights& layer = weights_.layers().layers[static_cast<size_t>(index)];
    const RecurrentState::Layer memory = state_.layer(index);
    const int width = config_.width;
    backend_.TimeMixIn({.rows = rows_,
                        .width = width,
                        .lanes = lanes_,
                        .shift = Shift(memory.att_shift, memory.att_shift_log),
                        .x = Rows(at_.x, width),
                        .ln_weight = layer.ln1_weight,
                        .ln_bias = layer.ln1_bias,
                        .mix = layer.att_mix,
                        .receptance = layer.receptance,
                        .key = layer.key,
                        .value = layer.value,
                        .w1 = layer.w1,
                        .a1 = layer.a1,
                        .v1 = layer.v1,
                        .g1 = layer.g1,
                        .h = Rows(at_.h, width),
                        .mixed = Rows(at_.mixed, 6 * width),
                        .r = Rows(at_.r, width),
                        .k = Rows(at_.k, width),
                        .v = Rows(at_.v, width),
                        .w_low = Rows(at_.w_low, config_.decay_rank),
                        .a_low = Rows(at_.a_low, config_.icl_rank),
                        .v_low = Rows(at_.v_low, layer.v1.rows),
                        .g_low = Rows(at_.g_low, config_.gate_rank)});
    TimeMixCore(layer, memory);
    backend_.TimeMixOut(
        {.rows = rows_, .output = layer.output, .y = Rows(at_.y, width), .x = Rows(at_.x, width)});
  }

  void TimeMixCore(const LayerWeights& layer, const RecurrentState::Layer& memory) {
    const int width = config_.width;
    backend_.TimeMixCore({.rows = rows_,
                          .width = width,
                          .lanes = lanes_,
                          .wkv = {.committed = memory.wkv,
                                  .committed_stride = state_.state_stride(),
                                  .log = memory.wkv_log,
                                  .log_stride = state_.log_stride()},
                          .w2 = layer.w2,
                          .a2 = layer.a2,
                          .v2 = layer.v2,
                          .g2 = layer.g2,
                          .w0 = layer.w0,
                          .a0 = layer.a0,
                          .v0 = layer.v0,
                          .k_k = layer.k_k,
                          .k_a = layer.k_a,
                          .r_k = layer.r_k,
                          .ln_weight = layer.ln_x_weight,
                          .ln_bias = layer.ln_x_bias,
                          .r = Rows(at_.r, width),
                          .k = Rows(at_.k, width),
                          .v = Rows(at_.v, width),
                          .w_low = Rows(at_.w_low, config_.decay_rank),
                          .a_low = Rows(at_.a_low, config_.icl_rank),
                          .v_low = Rows(at_.v_low, layer.v1.rows),
                          .g_low = Rows(at_.g_low, config_.gate_rank),
                          .v_first = Rows(at_.v_first, width),
                          .scratch = Rows(at_.scratch, 4 * width),
                          .y = Rows(at_.y, width)});
  }

  void ChannelMix(int index) {
    const LayerWeights& layer = weights_.layers().layers[static_cast<size_t>(index)];
    const RecurrentState::Layer memory = state_.layer(index);
    const int width = config_.width;
    backend_.ChannelMixKey({.rows = rows_,
                            .width = width,
                            .lanes = lanes_,
                            .shift = Shift(memory.ffn_shift, memory.ffn_shift_log),
                            .x = Rows(at_.x, width),
                            .ln_weight = layer.ln2_weight,
                            .ln_bias = layer.ln2_bias,
                            .mix = layer.ffn_mix,
                            .key = layer.ffn_key,
                            .h = Rows(at_.h, width),
                            .mixed = Rows(at_.mixed, width),
                            .act = Rows(at_.act, config_.ffn)});
    RowTap tap;
    if (index == features_.taps[0]) tap = Tap(1);
    if (index == features_.taps[1]) tap = Tap(2);
    backend_.ChannelMixValue({.rows = rows_,
                              .value = layer.ffn_value,
                              .act = Rows(at_.act, config_.ffn),
                              .x = Rows(at_.x, width),
                              .tap = tap});
  }

  void Head() {
    const size_t wanted = static_cast<size_t>(at_.logit_count);
    backend_.Head({.rows = rows_,
                   .width = config_.width,
                   .x = Rows(at_.x, config_.width),
                   .ln_weight = weights_.layers().ln_out_weight,
                   .ln_bias = weights_.layers().ln_out_bias,
                   .head = weights_.head(),
                   .logit_rows = {at_.logit_rows, wanted},
                   .h = {at_.head_h, wanted * config_.width},
                   .logits = {at_.logits, wanted * config_.vocab},
                   .tap = Tap(0)});
  }

  const ModelWeights& weights_;
  const ModelConfig& config_;
  const RecurrentState& state_;
  const ActivationBuffers& at_;
  const FeatureTap& features_;
  Backend& backend_;
  const int rows_;
  const Lanes lanes_;
};

}  // namespace

Rwkv7::Rwkv7(const ModelWeights* weights) : weights_(weights) {}

const ModelConfig& Rwkv7::config() const { return weights_->config(); }

void Rwkv7::Forward(const DecodeBatch& batch, RecurrentState& state, Activations& activations,
                    const FeatureTap& features, const DraftWriter& write_drafts) const {
  CHECK(batch.lanes() > 0) << "an empty pass";
  for (const int32_t token : batch.tokens) {
    CHECK(token >= 0 && token < config().vocab) << "token " << token;
  }
  for (const int32_t slot : batch.slots)
    CHECK(slot >= 0 && slot < state.slots()) << "slot " << slot;
  CHECK(features.known() || features.rows == nullptr);
  CHECK(!features.known() || features.taps[0] != features.taps[1]);
  activations.impl_->Upload(batch, features.rows);
  if (write_drafts) {
    const ActivationBuffers& at = *activations.impl_;
    write_drafts({at.tokens, batch.tokens.size()}, {at.row_tokens, batch.logit_rows.size()});
  }
  const auto enqueue = [&] { Pass(*weights_, batch, state, *activations.impl_, features).Run(); };
  // Prompts are of any length, so that their passes rarely repeat, and they are long enough to hide
  // the launches.
  if (batch.rows() > batch.lanes() * (kMaxDrafts + 1)) return enqueue();
  const ActivationBuffers& at = *activations.impl_;
  weights_->backend()->RunRecorded(
      {.owner = at.x,
       .values = {static_cast<uint64_t>(batch.rows()), static_cast<uint64_t>(batch.lanes()),
                  static_cast<uint64_t>(at.logit_count),
                  reinterpret_cast<uint64_t>(state.accepted()),
                  static_cast<uint64_t>(features.taps[0]) << 32 |
                      static_cast<uint32_t>(features.taps[1])}},
      enqueue);
}

}  // namespace tandem
