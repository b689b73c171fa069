#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "services/verifier/device_handoff.h"
#include "services/verifier/generation.h"

namespace tandem {

// One sequence's part in a pass.
struct StepLane {
  const Slot* slot = nullptr;
  absl::Span<const int32_t> certain = {};  // at least one
  absl::Span<const int32_t> drafts = {};   // all may be kDraftOnDevice
  bool choose = false;    // choose a token at the last certain row and at every draft's
  int32_t generated = 0;  // tokens of the reply before the first choice
  int64_t position = 0;   // of the first chosen token
  const Sampling* sampling = nullptr;
  int simulated = -1;  // see AcceptLane
};

// A smaller gap between two logits may be a matter of rounding.
inline constexpr float kNearTie = 2e-3f;

// What a lane chose: s_0 .. s_accepted.
struct LaneChoice {
  int drafted = 0;  // drafts that it had
  int accepted = 0;
  std::vector<int32_t> tokens = {};
  std::vector<TokenLogprobEntry> logprobs = {};  // empty, or one per token
  int near_ties = 0;  // greedy choices that lie above the next best logit by less than kNearTie
};

// Forward and Accept of one plan, with the memory that both need and each slot's penalty counts,
// logit bias and end ids.
class Step final {
 public:
  struct Options {
    int max_lanes = 0;
    int max_rows = 0;
    int usable_vocab = 0;
  };
  // All three must outlive the step. RESOURCE_EXHAUSTED when the backend lacks memory.
  static absl::StatusOr<std::unique_ptr<Step>> Create(Backend* backend, const Rwkv7* model,
                                                      RecurrentState* state,
                                                      const Options& options);
  // Backend memory that Create asks for, that of a pass's activations included.
  static size_t Bytes(const Backend& backend, const ModelConfig& config, int slots,
                      const Options& options);
  ~Step();

  // What the slot's reply chooses by, from its first choice on: `prompt` is everything before the
  // reply, `emitted` the tokens that the reply already has. At most kMaxBias entries, at most
  // kMaxEndIds stop ids.
  void BeginReply(const Slot& slot, absl::Span<const int32_t> prompt,
                  absl::Span<const int32_t> emitted, const GenerationInput& input);

  // Runs one pass; choices[i] answers lanes[i] and is empty where the lane did not choose. Feature
  // rows of lane i begin at first_row(i). `device` is needed where drafts are on the device, and
  // publishes what the pass made certain.
  std::vector<LaneChoice> Run(absl::Span<const StepLane> lanes, const FeatureTap& features,
                              DeviceHandoff* device = nullptr);
  int first_row(int lane) const;
  // Ends the process where the device has been lost; between passes.
  void CheckDevice();

  static constexpr int kMaxBias = 1024;
  static constexpr int kMaxEndIds = 65;

 private:
  struct Memory;
  Step(Backend* backend, const Rwkv7* model, RecurrentState* state, const Options& options);
  void FillLanes(absl::Span<const StepLane> lanes);
  std::vector<WantedDrafts> Wanted(absl::Span<const StepLane> lanes) const;
  AcceptArgs Args(int lanes, int rows) const;
  std::vector<LaneChoice> ReadChoices(absl::Span<const StepLane> lanes);

  Backend* const backend_;
  const Rwkv7* const model_;
  RecurrentState* const state_;
  const Options options_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace tandem
