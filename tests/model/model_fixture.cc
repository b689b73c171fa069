#include "tests/model/model_fixture.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "common/base/check.h"
#include "common/model/weights_source.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

constexpr char kModel[] = "deploy/demo-model";

template <class T>
T Value(absl::StatusOr<T> value) {
  CHECK_OK(value.status());
  return *std::move(value);
}

}  // namespace

DemoModel::DemoModel(int threads, const WeightsOptions& options)
    : backend_(MakeTestBackend(threads)) {
  const std::unique_ptr<WeightsSource> source = Value(WeightsSource::Open(kModel));
  weights_ = Value(ModelWeights::Load(backend_.get(), *source, options));
  model_ = std::make_unique<Rwkv7>(weights_.get());
  const ModelConfig& config = model_->config();
  state_ = Value(RecurrentState::Create(backend_.get(), config, kSlots));
  activations_ = Value(Activations::Create(backend_.get(), config, kMaxRows, kMaxRows, kSlots));
  features_ = static_cast<float*>(
      backend_->Allocate(static_cast<size_t>(kMaxRows) * 3 * config.width * sizeof(float)));
  CHECK(features_ != nullptr);
}

Slot DemoModel::Acquire() { return Value(state_->Acquire()); }

std::vector<std::vector<float>> DemoModel::Forward(const DecodeBatch& batch) {
  model_->Forward(batch, *state_, *activations_,
                  {.taps = {kDemoTaps[0], kDemoTaps[1]}, .rows = features_});
  const View<const float> logits = activations_->logits();
  const size_t vocab = static_cast<size_t>(model_->config().vocab);
  std::vector<std::vector<float>> rows(batch.logit_rows.size(), std::vector<float>(vocab));
  CHECK_EQ(logits.size, rows.size() * vocab);
  for (size_t i = 0; i < rows.size(); ++i) {
    backend_->CopyOut(rows[i].data(), logits.data + i * vocab, vocab * sizeof(float));
  }
  host_features_.resize(static_cast<size_t>(batch.rows()) * 3 * model_->config().width);
  backend_->CopyOut(host_features_.data(), features_, host_features_.size() * sizeof(float));
  backend_->Wait();
  return rows;
}

std::vector<std::vector<float>> DemoModel::Run(const std::vector<Lane>& lanes) {
  DecodeBatch batch;
  batch.Clear();
  for (const Lane& lane : lanes) batch.AddLane(lane.slot->index(), lane.certain, lane.drafts, true);
  std::vector<std::vector<float>> rows = Forward(batch);
  for (const Lane& lane : lanes) state_->SetAccepted(*lane.slot, 0);
  return rows;
}

std::vector<std::vector<float>> DemoModel::Feed(const Slot& slot, absl::Span<const int32_t> tokens,
                                                int chunk) {
  std::vector<std::vector<float>> all;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
    const absl::Span<const int32_t> part = tokens.subspan(at, static_cast<size_t>(chunk));
    DecodeBatch batch;
    batch.Clear();
    batch.AddLane(slot.index(), part, {}, false);
    for (int row = 0; row < batch.rows(); ++row) batch.logit_rows.push_back(row);
    for (std::vector<float>& row : Forward(batch)) all.push_back(std::move(row));
    state_->SetAccepted(slot, 0);
  }
  return all;
}

std::vector<float> DemoModel::Prefill(const Slot& slot, absl::Span<const int32_t> tokens,
                                      int chunk) {
  std::vector<float> last;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
    const absl::Span<const int32_t> part = tokens.subspan(at, static_cast<size_t>(chunk));
    last = Run({{.slot = &slot, .certain = {part.begin(), part.end()}}}).front();
  }
  return last;
}

const nlohmann::json& Golden() {
  static const nlohmann::json* const golden = [] {
    std::ifstream file(std::string(kModel) + "/golden/golden.json");
    CHECK(file.good()) << "no golden.json: run from the source root";
    return new nlohmann::json(nlohmann::json::parse(file));
  }();
  return *golden;
}

std::vector<int32_t> Tokens(const nlohmann::json& list) { return list.get<std::vector<int32_t>>(); }

bool SameBits(absl::Span<const float> a, absl::Span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectSameRows(const std::vector<std::vector<float>>& actual,
                    const std::vector<std::vector<float>>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_TRUE(SameBits(actual[i], expected[i])) << "row " << i;
}

int Argmax(absl::Span<const float> values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace tandem
