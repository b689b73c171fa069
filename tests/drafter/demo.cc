#include "tests/drafter/demo.h"

#include <algorithm>
#include <fstream>

#include "common/base/check.h"

namespace tandem {
namespace {

constexpr char kFolder[] = "deploy/demo-model";

template <class T>
T Take(absl::StatusOr<T> value) {
  CHECK_OK(value.status());
  return *std::move(value);
}

}  // namespace

Demo& Demo::Get() {
  static Demo demo;
  return demo;
}

Demo::Demo() : backend_(MakeTestBackend(1)) {
  source_ = Take(WeightsSource::Open(kFolder));
  weights_ = Take(ModelWeights::Load(&backend_, *source_));
  model_ = std::make_unique<Rwkv7>(weights_.get());
  const ModelConfig& config = weights_->config();
  sidecar_ = Take(MtpFile::Open(std::string(kFolder) + "/mtp",
                                {.name = weights_->name(),
                                 .layers = config.layers,
                                 .width = config.width,
                                 .vocab = config.vocab},
                                /*force=*/false));
  golden_ = nlohmann::json::parse(std::ifstream(std::string(kFolder) + "/golden/golden.json"));
}

std::unique_ptr<Mtp> Demo::MakeMtp(int slots, int max_lanes, int max_rows) {
  return Take(Mtp::Create(&backend_, *sidecar_,
                          {.vocab = vocab(),
                           .embedding = weights_->embedding(),
                           .head = weights_->head(),
                           .slots = slots,
                           .max_lanes = max_lanes,
                           .max_rows = max_rows}));
}

const float* Demo::OnBackend(absl::Span<const float> values) {
  void* memory = backend_.Allocate(values.size() * sizeof(float));
  CHECK(memory != nullptr);
  backend_.CopyIn(memory, values.data(), values.size() * sizeof(float));
  return static_cast<const float*>(memory);
}

BaseSequence::BaseSequence() : demo_(Demo::Get()) {
  const ModelConfig& config = demo_.model().config();
  state_ = Take(RecurrentState::Create(&demo_.backend(), config, 1));
  activations_ = Take(Activations::Create(&demo_.backend(), config, kMaxRows, kMaxDrafts + 1, 1));
  slot_ = Take(state_->Acquire());
  rows_ = static_cast<float*>(
      demo_.backend().Allocate(kMaxRows * demo_.feature_width() * sizeof(float)));
}

int64_t BaseSequence::positions() const {
  return static_cast<int64_t>(features.size()) / demo_.feature_width();
}

void BaseSequence::Pass(absl::Span<const int32_t> certain, absl::Span<const int32_t> drafts) {
  while (certain.size() + drafts.size() > kMaxRows) {
    Pass(certain.first(kMaxRows / 2));
    certain.remove_prefix(kMaxRows / 2);
  }
  DecodeBatch batch;
  batch.AddLane(slot_.index(), certain, drafts, /*choose=*/true);
  const std::array<int, 2>& taps = demo_.sidecar().config().fuse_layers;
  demo_.model().Forward(batch, *state_, *activations_, {.taps = {taps[0], taps[1]}, .rows = rows_});
  state_->SetAccepted(slot_, 0);
  drafts_ = static_cast<int>(drafts.size());
  const size_t before = features.size();
  features.resize(before + static_cast<size_t>(batch.rows()) * demo_.feature_width());
  demo_.backend().CopyOut(&features[before], rows_, (features.size() - before) * sizeof(float));
  demo_.backend().Wait();
}

std::vector<int32_t> BaseSequence::Choices() const {
  const View<const float> logits = activations_->logits();
  std::vector<float> host(logits.size);  // [drafts + 1, V]
  demo_.backend().CopyOut(host.data(), logits.data, logits.size * sizeof(float));
  demo_.backend().Wait();
  std::vector<int32_t> choices;
  for (int row = 0; row <= drafts_; ++row) {
    const auto begin = host.begin() + static_cast<std::ptrdiff_t>(row) * demo_.vocab();
    choices.push_back(static_cast<int32_t>(std::max_element(begin, begin + demo_.vocab()) - begin));
  }
  return choices;
}

void BaseSequence::Accept(int count) {
  state_->SetAccepted(slot_, count);
  features.resize(features.size() - static_cast<size_t>(drafts_ - count) * demo_.feature_width());
}

DraftLane LaneOf(const std::vector<int32_t>& ids, const std::vector<float>& features, int begin,
                 int end, int wanted, int slot, uint32_t generation) {
  const size_t width = static_cast<size_t>(Demo::Get().feature_width());
  const absl::Span<const float> rows = absl::MakeConstSpan(features).subspan(
      static_cast<size_t>(begin) * width, static_cast<size_t>(end - begin) * width);
  return {.slot = slot,
          .generation = generation,
          .count = end - begin,
          .wanted = wanted,
          .position = begin,
          .features = Demo::Get().OnBackend(rows),
          .next_tokens = ids.data() + begin + 1};
}

std::vector<int32_t> DraftOne(Drafter& drafter, const DraftLane& lane) {
  Drafts drafts;
  drafter.Draft({&lane, 1}, {&drafts, 1});
  return {drafts.tokens, drafts.tokens + drafts.count};
}

}  // namespace tandem
