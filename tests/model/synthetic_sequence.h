#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/model/batch.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "common/model/synthetic.h"
#include "kernels/lanes.h"
#include "tests/bench/timed_backend.h"

namespace tandem {

// A synthetic model with one sequence, on a backend that counts the live inputs of ffn.value or
// leaves passes recorded.
class SyntheticSequence final {
 public:
  SyntheticSequence(std::unique_ptr<Backend> backend, const SyntheticModel& model, int max_rows,
                    TimedBackend::Measure measure)
      : backend_(std::move(backend), measure),
        weights_(MakeSynthetic(&backend_, model).value()),
        model_(weights_.get()),
        state_(RecurrentState::Create(&backend_, model.config, 1).value()),
        activations_(
            Activations::Create(&backend_, model.config, max_rows, kMaxDrafts + 1, 1).value()),
        slot_(state_->Acquire().value()) {}

  // The logits after the last certain token and after each draft.
  std::vector<std::vector<float>> Pass(absl::Span<const int32_t> certain,
                                       absl::Span<const int32_t> drafts) {
    DecodeBatch batch;
    batch.AddLane(slot_.index(), certain, drafts, true);
    model_.Forward(batch, *state_, *activations_, {});
    const size_t vocab = static_cast<size_t>(model_.config().vocab);
    std::vector<std::vector<float>> logits(1 + drafts.size(), std::vector<float>(vocab));
    for (size_t row = 0; row < logits.size(); ++row) {
      backend_.CopyOut(logits[row].data(), activations_->logits().data + row * vocab,
                       vocab * sizeof(float));
    }
    backend_.Wait();
    return logits;
  }
  // The next pass keeps that many drafts.
  void Accept(int count) { state_->SetAccepted(slot_, count); }

  // Without an order.
  std::vector<int32_t> Tokens(int count) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < count; ++i) {
      next_ = next_ * 1664525u + 1013904223u;
      tokens.push_back(
          static_cast<int32_t>((next_ >> 8) % static_cast<uint32_t>(model_.config().vocab)));
    }
    return tokens;
  }

  TimedBackend& backend() { return backend_; }
  const ModelWeights& weights() const { return *weights_; }

 private:
  uint32_t next_ = 1;
  TimedBackend backend_;
  std::unique_ptr<ModelWeights> weights_;
  Rwkv7 model_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Activations> activations_;
  Slot slot_;
};

// How many of the logits of passes with right and wrong drafts differ from those of one token at a
// time. `plain` and `spec` are two sequences of the same model; 0 is the promise.
inline int64_t DraftsThatChangeLogits(SyntheticSequence& plain, SyntheticSequence& spec,
                                      int tokens) {
  constexpr int kDrafts = 3;
  constexpr int kRight[] = {3, 0, 2, 1};  // drafts of a pass that are right
  const std::vector<int32_t> text = plain.Tokens(tokens + kDrafts);
  const absl::Span<const int32_t> all = text;
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < text.size(); ++i)
    expected.push_back(plain.Pass(all.subspan(i, 1), {}).front());
  int64_t differ = 0;
  size_t pass = 0;
  for (size_t at = 0; at < static_cast<size_t>(tokens); ++pass) {
    const size_t right = static_cast<size_t>(kRight[pass % 4]);
    std::vector<int32_t> drafts(text.begin() + at + 1, text.begin() + at + 1 + right);
    while (drafts.size() < kDrafts) drafts.push_back(text[at] == 7 ? 8 : 7);
    const auto logits = spec.Pass(all.subspan(at, 1), drafts);
    for (size_t r = 0; r <= right; ++r) {
      for (size_t v = 0; v < logits[r].size(); ++v) differ += logits[r][v] != expected[at + r][v];
    }
    spec.Accept(static_cast<int>(right));
    at += right + 1;
  }
  return differ;
}

}  // namespace tandem
