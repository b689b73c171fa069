#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/accept/accept.h"
#include "kernels/backend.h"

namespace tandem {

// One lane per slot over a small vocabulary, with its own counts and seen bits. Outputs start
// poisoned so that what the op does not write shows.
class AcceptFixture final {
 public:
  AcceptFixture(int vocab, int slots, int usable_vocab = 0)
      : vocab_(vocab),
        usable_vocab_(usable_vocab > 0 ? usable_vocab : vocab),
        counts(static_cast<size_t>(slots) * vocab),
        seen(static_cast<size_t>(slots) * vocab),
        accepted(slots, -7) {}

  struct Lane {
    int slot = 0;
    int generated = 0;
    int64_t position = 0;
    int simulated = -1;
    Sampling sampling = {};
    std::vector<std::vector<float>> logits = {};  // [rows][V]
    std::vector<int32_t> row_tokens = {};         // [rows], the first is ignored
    std::vector<int32_t> bias_ids = {};
    std::vector<float> bias_values = {};
    std::vector<int32_t> end_ids = {};
  };

  // The tokens that each lane emits.
  std::vector<std::vector<int32_t>> Run(Backend& backend, const std::vector<Lane>& lanes,
                                        int scratch_lanes = 1) {
    std::vector<float> rows;
    std::vector<int32_t> row_tokens;
    std::vector<AcceptLane> views;
    for (const Lane& lane : lanes) {
      views.push_back({.slot = lane.slot,
                       .first_row = static_cast<int32_t>(row_tokens.size()),
                       .rows = static_cast<int32_t>(lane.logits.size()),
                       .generated = lane.generated,
                       .position = lane.position,
                       .simulated = lane.simulated,
                       .sampling = lane.sampling,
                       .bias_ids = {lane.bias_ids.data(), lane.bias_ids.size()},
                       .bias_values = {lane.bias_values.data(), lane.bias_values.size()},
                       .end_ids = {lane.end_ids.data(), lane.end_ids.size()}});
      for (const std::vector<float>& row : lane.logits)
        rows.insert(rows.end(), row.begin(), row.end());
      row_tokens.insert(row_tokens.end(), lane.row_tokens.begin(), lane.row_tokens.end());
    }
    const size_t outputs = lanes.size() * (kMaxDrafts + 1);
    emitted.assign(lanes.size(), -7);
    tokens.assign(outputs, -7);
    logprobs.assign(outputs, kPoison);
    top_ids.assign(outputs * kMaxTopLogprobs, -7);
    top_values.assign(outputs * kMaxTopLogprobs, kPoison);
    margins.assign(outputs, kPoison);
    std::vector<float> scratch(AcceptScratchFloats(vocab_) * scratch_lanes, kPoison);
    backend.Accept({.vocab = vocab_,
                    .usable_vocab = usable_vocab_,
                    .logits = {rows.data(), rows.size()},
                    .row_tokens = {row_tokens.data(), row_tokens.size()},
                    .lanes = {views.data(), views.size()},
                    .counts = {counts.data(), counts.size()},
                    .seen = {seen.data(), seen.size()},
                    .accepted = {accepted.data(), accepted.size()},
                    .emitted = {emitted.data(), emitted.size()},
                    .tokens = {tokens.data(), tokens.size()},
                    .logprobs = {logprobs.data(), logprobs.size()},
                    .top_ids = {top_ids.data(), top_ids.size()},
                    .top_values = {top_values.data(), top_values.size()},
                    .margins = {margins.data(), margins.size()},
                    .scratch = {scratch.data(), scratch.size()}});
    std::vector<std::vector<int32_t>> result;
    for (size_t i = 0; i < lanes.size(); ++i) {
      const auto first = tokens.begin() + i * (kMaxDrafts + 1);
      result.emplace_back(first, first + emitted[i]);
    }
    return result;
  }

  // One choice for slot 0.
  int32_t Choose(Backend& backend, const Sampling& sampling, const std::vector<float>& logits,
                 int64_t position = 0) {
    return Run(backend, {{.position = position,
                          .sampling = sampling,
                          .logits = {logits},
                          .row_tokens = {0}}})[0][0];
  }

 private:
  static constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
  const int vocab_;
  const int usable_vocab_;

 public:
  std::vector<float> counts;      // [S, V]
  std::vector<uint8_t> seen;      // [S, V]
  std::vector<int32_t> accepted;  // [S]
  std::vector<int32_t> emitted, tokens, top_ids;
  std::vector<float> logprobs, top_values, margins;
};

}  // namespace tandem
