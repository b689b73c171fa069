#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/drafter/mtp/mtp.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/synthetic.h"
#include "kernels/backend.h"
#include "kernels/view.h"
#include "services/verifier/step.h"
#include "tests/bench/timed_backend.h"

namespace tandem {

// One kind of pass: lanes sequences of `certain` tokens and `drafts` drafts each.
struct StepShape {
  int lanes = 1;
  int certain = 1;
  int drafts = 0;

  int rows() const { return lanes * (certain + drafts); }
};

// A synthetic model with as many sequences as the largest pass has lanes, and its sidecar with one.
// Passes run through the engine's own Step. Tokens are random, so that no two passes read the same
// weights of ffn.value.
class StepEngine final {
 public:
  StepEngine(std::unique_ptr<Backend> backend, const SyntheticModel& model,
             WeightFormat draft_format, int max_rows, int max_lanes);

  // Chooses the tokens of the next Run.
  void Prepare(const StepShape& shape);
  // The pass, its choices, and the way back to the host.
  void Run();
  // Of the features that the last pass left: equal for equal flags, whatever is done for speed.
  uint64_t FeatureHash();
  // What the next pass of these sequences replays: as if one draft had been accepted.
  void Keep();

  // The sidecar begins a sequence, with a full window of context.
  void StartDrafting();
  // A round: `certain` positions fed and a chain of `wanted` drafts.
  void Draft(int certain, int wanted);

  TimedBackend& backend() { return backend_; }

 private:
  int32_t RandomToken();

  TimedBackend backend_;
  const ModelConfig config_;
  std::unique_ptr<ModelWeights> weights_;
  Rwkv7 model_;
  std::unique_ptr<RecurrentState> state_;
  std::vector<Slot> slots_;
  std::unique_ptr<Step> step_;
  std::array<int, 2> taps_ = {};
  std::unique_ptr<Mtp> drafter_;
  float* features_ = nullptr;  // [max_rows, 3C] backend memory

  uint64_t random_ = 1;
  StepShape shape_;
  Sampling sampling_;
  std::vector<int32_t> tokens_;  // of all lanes
  std::vector<StepLane> lanes_;
  int64_t position_ = 0;  // of the passes
  uint32_t generation_ = 0;
  int64_t draft_position_ = 0;
};

}  // namespace tandem
