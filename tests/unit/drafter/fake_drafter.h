#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/drafter/drafter.h"

namespace tandem {

// Tokens that a FakeDrafter answers with: a function of what it was fed, so that both sides can
// compute it.
inline int32_t FakeDraft(int32_t last_token, int64_t last_position, int k, int vocab) {
  return static_cast<int32_t>((last_token * 31 + last_position * 7 + k) % vocab);
}

// First feature of a position, as FakeVerifier rounds write it.
inline float FakeFeature(int32_t slot, int64_t position) {
  return static_cast<float>(slot * 1000 + position);
}

// Drafts by FakeDraft where every feature row is what FakeFeature says, else nothing. Keeps what it
// was fed.
class FakeDrafter final : public Drafter {
 public:
  struct Fed {
    int32_t slot = 0;
    uint32_t generation = 0;
    int64_t position = 0;
    int32_t count = 0;
    int32_t wanted = 0;
  };

  FakeDrafter(int slots, int width, int vocab) : slots_(slots), width_(width), vocab_(vocab) {}

  int max_drafts() const override { return kMaxDrafts; }
  int slots() const override { return slots_; }
  void Draft(absl::Span<const DraftLane> lanes, absl::Span<Drafts> results) override {
    if (before_draft) before_draft();
    for (size_t i = 0; i < lanes.size(); ++i) {
      const DraftLane& lane = lanes[i];
      fed.push_back({lane.slot, lane.generation, lane.position, lane.count, lane.wanted});
      bool intact = true;
      for (int32_t r = 0; r < lane.count; ++r) {
        intact &= lane.features[static_cast<size_t>(r) * 3 * static_cast<size_t>(width_)] ==
                  FakeFeature(lane.slot, lane.position + r);
      }
      results[i].count = intact ? lane.wanted : 0;
      for (int k = 0; k < results[i].count; ++k) {
        results[i].tokens[k] =
            FakeDraft(lane.next_tokens[lane.count - 1], lane.position + lane.count - 1, k, vocab_);
      }
    }
  }

  // The backend is the CPU's: by now the round's records are there.
  void Enqueue(const DeviceRound& round, absl::Span<const DeviceDraftLane> lanes) override {
    positions_.clear();
    for (const DeviceDraftLane& lane : lanes) positions_.push_back(Answer(round, lane));
  }
  void Finish(absl::Span<int32_t> positions) override {
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = positions_[i];
  }

  std::vector<Fed> fed;
  std::function<void()> before_draft;

 private:
  int32_t Answer(const DeviceRound& round, const DeviceDraftLane& lane) {
    const CertainRecord& record = round.certain[static_cast<size_t>(lane.record)];
    if (record.epoch != round.epoch || record.step != round.step ||
        record.slot != lane.known.slot || record.generation != lane.generation) {
      return 0;
    }
    std::vector<int32_t> tokens(lane.known.next_tokens,
                                lane.known.next_tokens + lane.known.count - lane.chooses);
    tokens.insert(tokens.end(), record.tokens, record.tokens + record.emitted);
    DraftLane known = lane.known;
    known.count = static_cast<int32_t>(tokens.size());
    known.next_tokens = tokens.data();
    Drafts drafts;
    Draft({&known, 1}, {&drafts, 1});
    DraftRecord& answer = round.answers[static_cast<size_t>(lane.record)];
    answer = {.epoch = round.epoch,
              .step = round.step,
              .generation = lane.generation,
              .slot = lane.known.slot,
              .count = drafts.count};
    std::copy_n(drafts.tokens, drafts.count, answer.tokens);
    return known.count;
  }

  std::vector<int32_t> positions_;
  int slots_;
  int width_;
  int vocab_;
};

}  // namespace tandem
