#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/types/span.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/model/rwkv7.h"
#include "common/model/weights_source.h"
#include "tests/drafter/recording_backend.h"
#include "tests/test_backend.h"

namespace tandem {

// The embedded demo model, its sidecar and its golden results. One per process.
class Demo final {
 public:
  static Demo& Get();

  RecordingBackend& backend() { return backend_; }
  const Rwkv7& model() const { return *model_; }
  const ModelWeights& weights() const { return *weights_; }
  const MtpFile& sidecar() const { return *sidecar_; }
  const nlohmann::json& golden() const { return golden_; }
  int vocab() const { return model_->config().vocab; }
  int feature_width() const { return 3 * model_->config().width; }

  std::unique_ptr<Mtp> MakeMtp(int slots, int max_lanes = 8, int max_rows = 513);

  // A copy in backend memory, which lasts.
  const float* OnBackend(absl::Span<const float> values);

 private:
  Demo();
  RecordingBackend backend_;
  std::unique_ptr<WeightsSource> source_;
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<Rwkv7> model_;
  std::unique_ptr<MtpFile> sidecar_;
  nlohmann::json golden_;
};

// One sequence of the base model in a slot of its own.
class BaseSequence final {
 public:
  BaseSequence();

  // One pass of certain tokens, then drafts. The features of its rows are appended to `features`,
  // [positions, 3C], those of drafts as well.
  void Pass(absl::Span<const int32_t> certain, absl::Span<const int32_t> drafts = {});
  // The greedy choice at the last certain row and at every draft of the last pass.
  std::vector<int32_t> Choices() const;
  // Keeps the first `count` drafts of the last pass and forgets the rest.
  void Accept(int count);

  int64_t positions() const;  // rows of `features`
  std::vector<float> features;

 private:
  static constexpr int kMaxRows = 64;
  Demo& demo_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Activations> activations_;
  Slot slot_;
  float* rows_ = nullptr;  // [kMaxRows, 3C] backend memory
  int drafts_ = 0;         // of the last pass
};

// A lane that brings the positions [begin, end) of a text whose features are known.
DraftLane LaneOf(const std::vector<int32_t>& ids, const std::vector<float>& features, int begin,
                 int end, int wanted, int slot = 0, uint32_t generation = 1);

// One round of one lane.
std::vector<int32_t> DraftOne(Drafter& drafter, const DraftLane& lane);

}  // namespace tandem
