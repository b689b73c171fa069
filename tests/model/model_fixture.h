#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "nlohmann/json.hpp"
#include "tests/test_backend.h"

namespace tandem {

inline constexpr int kDemoTaps[2] = {2, 5};

// The demo model on the test backend, loaded once per process, with one state and one set of
// activations.
class DemoModel final {
 public:
  static constexpr int kSlots = 6;
  static constexpr int kMaxRows = 192;

  // `threads` as in MakeTestBackend.
  explicit DemoModel(int threads = 2, const WeightsOptions& options = {});

  // What one lane of a pass asks for.
  struct Lane {
    const Slot* slot = nullptr;
    std::vector<int32_t> certain = {};
    std::vector<int32_t> drafts = {};
  };
  // Logits of every lane's last certain row and its drafts, in order.
  std::vector<std::vector<float>> Run(const std::vector<Lane>& lanes);

  // Runs the tokens through the slot in chunks of `chunk` certain tokens; logits of every row.
  std::vector<std::vector<float>> Feed(const Slot& slot, absl::Span<const int32_t> tokens,
                                       int chunk);

  // As Feed, with logits of the last row only.
  std::vector<float> Prefill(const Slot& slot, absl::Span<const int32_t> tokens, int chunk);

  Slot Acquire();

  // [h, m1, m2] of the last Run's rows, [T, 3C], on the host.
  const float* features() const { return host_features_.data(); }
  Backend& backend() { return *backend_; }
  RecurrentState& state() { return *state_; }
  Rwkv7& model() { return *model_; }
  const ModelWeights& weights() const { return *weights_; }

 private:
  std::vector<std::vector<float>> Forward(const DecodeBatch& batch);

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<Rwkv7> model_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Activations> activations_;
  float* features_ = nullptr;         // [kMaxRows, 3C] backend memory
  std::vector<float> host_features_;  // [T, 3C]
};

// The stored results of an independent implementation.
const nlohmann::json& Golden();
std::vector<int32_t> Tokens(const nlohmann::json& list);

bool SameBits(absl::Span<const float> a, absl::Span<const float> b);
void ExpectSameRows(const std::vector<std::vector<float>>& actual,
                    const std::vector<std::vector<float>>& expected);

// Index of the largest value, the lowest on a tie.
int Argmax(absl::Span<const float> values);

}  // namespace tandem
