#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/model/batch.h"
#include "common/model/config.h"
#include "common/model/state.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "kernels/view.h"

namespace tandem {

// Scratch memory of a pass, allocated once for the largest pass.
class Activations final {
 public:
  // max_rows: most tokens of a pass; max_logit_rows: most rows with logits; max_lanes: most lanes.
  static absl::StatusOr<std::unique_ptr<Activations>> Create(Backend* backend,
                                                             const ModelConfig& config,
                                                             int max_rows, int max_logit_rows,
                                                             int max_lanes);
  // Backend memory that Create asks for.
  static size_t Bytes(const ModelConfig& config, int max_rows, int max_logit_rows, int max_lanes);
  // What Create has the backend reserve besides.
  static LinearReserve LinearOps(const ModelConfig& config, int max_rows);
  ~Activations();

  int max_rows() const;
  View<const float> logits() const;  // [R, V] of the last Forward
  View<const int32_t> row_tokens()
      const;  // [R] token consumed by each logit row of the last Forward

 private:
  friend class Rwkv7;
  struct Impl;
  explicit Activations(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Where a pass leaves what a drafter needs: one row of [h, m1, m2] per token, h = LN_out(x) and m1,
// m2 the residual stream after layers taps[0] and taps[1]. Passes that differ in `rows` only are
// recorded once.
struct FeatureTap {
  int taps[2] = {-1, -1};
  float* rows = nullptr;  // [T, 3C] backend memory, or null: not wanted now

  bool known() const { return taps[0] >= 0 && taps[1] >= 0; }
};

// Enqueues what replaces drafts of a pass, once its tokens lie in backend memory and before an op
// reads them: `tokens` [T] and, the same by rows with logits, `row_tokens` [R].
using DraftWriter = std::function<void(View<int32_t> tokens, View<int32_t> row_tokens)>;

// The RWKV-7 graph over one backend. Const and reusable: all mutable memory is passed in.
class Rwkv7 final {
 public:
  // `weights` must outlive the model.
  explicit Rwkv7(const ModelWeights* weights);

  // Runs one pass: for each lane replays the accepted log, commits certain rows, logs provisional
  // rows, and leaves logits for batch.logit_rows. A token's results depend neither on the other
  // lanes nor on how a sequence is cut into passes, bit for bit. Batch sizes must fit
  // `activations`. Enqueued on the weights' backend; see Backend::Wait.
  void Forward(const DecodeBatch& batch, RecurrentState& state, Activations& activations,
               const FeatureTap& features, const DraftWriter& write_drafts = nullptr) const;

  const ModelConfig& config() const;

 private:
  const ModelWeights* weights_;
};

}  // namespace tandem
