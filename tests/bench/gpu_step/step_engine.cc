#include "tests/bench/gpu_step/step_engine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "tests/bench/bench_model.h"

namespace tandem {

StepEngine::StepEngine(std::unique_ptr<Backend> backend, const SyntheticModel& model,
                       WeightFormat draft_format, int max_rows, int max_lanes)
    : backend_(std::move(backend), TimedBackend::Measure::kNothing),
      config_(model.config),
      weights_(Value(MakeSynthetic(&backend_, model))),
      model_(weights_.get()),
      state_(Value(RecurrentState::Create(&backend_, config_, max_lanes))) {
  for (int i = 0; i < max_lanes; ++i) slots_.push_back(Value(state_->Acquire()));
  step_ = Value(Step::Create(&backend_, &model_, state_.get(),
                             {.max_lanes = max_lanes, .max_rows = max_rows}));
  MtpWeights sidecar =
      Value(MakeSyntheticMtp(&backend_, {.base = config_, .format = draft_format}));
  taps_ = sidecar.config.fuse_layers;
  drafter_ = Value(Mtp::Create(&backend_, std::move(sidecar),
                               {.vocab = config_.vocab,
                                .embedding = weights_->embedding(),
                                .head = weights_->head(),
                                .slots = 1,
                                .max_lanes = 1}));
  const size_t rows = static_cast<size_t>(std::max(max_rows, kMtpMaxWindow));
  const size_t bytes = rows * 3 * static_cast<size_t>(config_.width) * sizeof(float);
  features_ = static_cast<float*>(backend_.Allocate(bytes));
  CHECK(features_ != nullptr) << "no memory for features: " << bytes << " bytes";
}

int32_t StepEngine::RandomToken() {
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<int32_t>((random_ >> 33) % static_cast<uint64_t>(config_.vocab));
}

void StepEngine::Prepare(const StepShape& shape) {
  shape_ = shape;
  const size_t each = static_cast<size_t>(shape.certain + shape.drafts);
  tokens_.resize(static_cast<size_t>(shape.lanes) * each);
  for (int32_t& token : tokens_) token = RandomToken();
  lanes_.clear();
  position_ += static_cast<int64_t>(each);
  for (size_t i = 0; i < static_cast<size_t>(shape.lanes); ++i) {
    const absl::Span<const int32_t> tokens = absl::MakeConstSpan(tokens_).subspan(i * each, each);
    lanes_.push_back({.slot = &slots_[i],
                      .certain = tokens.first(static_cast<size_t>(shape.certain)),
                      .drafts = tokens.subspan(static_cast<size_t>(shape.certain)),
                      .choose = true,
                      .position = position_,
                      .sampling = &sampling_});
  }
}

void StepEngine::Run() { step_->Run(lanes_, {.taps = {taps_[0], taps_[1]}, .rows = features_}); }

uint64_t StepEngine::FeatureHash() {
  const size_t rows = static_cast<size_t>(shape_.rows());
  std::vector<float> features(rows * 3 * static_cast<size_t>(config_.width));
  const size_t bytes = features.size() * sizeof(float);
  backend_.CopyOut(features.data(), features_, bytes);
  backend_.Wait();
  Hasher hasher;
  hasher.Update({reinterpret_cast<const uint8_t*>(features.data()), bytes});
  return hasher.Digest();
}

void StepEngine::Keep() {
  if (shape_.drafts == 0) return;
  for (const StepLane& lane : lanes_) state_->SetAccepted(*lane.slot, 1);
  backend_.Wait();
}

void StepEngine::StartDrafting() {
  ++generation_;
  draft_position_ = 0;
  Draft(kMtpMaxWindow, 0);
}

void StepEngine::Draft(int certain, int wanted) {
  std::vector<int32_t> tokens(static_cast<size_t>(certain));
  for (int32_t& token : tokens) token = RandomToken();
  const DraftLane lane = {.slot = 0,
                          .generation = generation_,
                          .count = certain,
                          .wanted = wanted,
                          .position = draft_position_,
                          .features = features_,
                          .next_tokens = tokens.data()};
  Drafts drafts;
  drafter_->Draft({&lane, 1}, {&drafts, 1});
  CHECK_EQ(drafts.count, wanted);
  draft_position_ += certain;
}

}  // namespace tandem
