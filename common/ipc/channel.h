#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/ipc/layout.h"
#include "common/ipc/messages.h"
#include "common/ipc/word.h"

namespace tandem::ipc {

// One attachment's memory as addresses: what both ends of the channel share.
class BlockView final {
 public:
  BlockView() = default;
  // The memories must have the layout's sizes and outlive the view.
  BlockView(const Layout& layout, void* control, void* features, uint64_t epoch);

  const Layout& layout() const { return layout_; }
  uint64_t epoch() const { return epoch_; }
  BlockHeader* header() const;
  Word& word(WordIndex index) const;
  StepRecord* step(uint64_t step) const;
  LaneRecord* lanes(uint64_t step) const;    // [B]
  int32_t* tokens(uint64_t step) const;      // [R]
  DraftRecord* drafts(uint64_t step) const;  // [B]
  // Backend memory.
  float* features(uint64_t step) const;  // [R, 3C]
  uint32_t* device_word(DeviceWordIndex index) const;
  CertainRecord* certain(uint64_t step) const;      // [B]
  DraftRecord* device_drafts(uint64_t step) const;  // [B]
  RoundTimes* times(uint64_t step) const;

 private:
  char* At(Layout::Offset offset, uint64_t index, uint64_t stride) const;
  // Step's copy in the ring of an area that holds `count` T per step.
  template <typename T>
  T* Copy(Layout::Offset offset, uint64_t step, int count = 1) const {
    return reinterpret_cast<T*>(At(offset, step % kRing, static_cast<uint64_t>(count) * sizeof(T)));
  }
  Layout layout_;
  char* control_ = nullptr;
  char* features_ = nullptr;
  uint64_t epoch_ = 0;
};

// The verifier's end. Steps count from 1. One thread.
class VerifierChannel final {
 public:
  VerifierChannel() = default;
  explicit VerifierChannel(const BlockView& view) : view_(view) {}

  const BlockView& view() const { return view_; }
  // Empties both words of the epoch and all records; before the peer may look.
  void Start(uint64_t nonce) const;

  // A round: Begin, the lanes, the tokens from row `first_row` on and features(step) in any order,
  // then Publish.
  void Begin(uint64_t step) const;
  void WriteLanes(uint64_t step, absl::Span<const LaneRecord> lanes) const;
  void WriteTokens(uint64_t step, int first_row, absl::Span<const int32_t> tokens) const;
  void Publish(uint64_t step, int lanes) const;

  uint64_t drafted() const;
  WaitResult WaitDrafted(uint64_t step, Clock::time_point deadline,
                         absl::FunctionRef<bool()> stopped) const;
  // A private copy, read once; nothing in it is checked.
  void TakeDrafts(uint64_t step, absl::Span<DraftRecord> drafts) const;

  // One exchange of the probe, i from 1.
  WaitResult Ping(uint64_t i, Clock::time_point deadline, absl::FunctionRef<bool()> stopped) const;

 private:
  BlockView view_;
};

// A private copy of a published round.
struct Round {
  std::vector<LaneRecord> lanes;
  std::vector<int32_t> tokens;  // [R]
};

// The drafter's end. One thread.
class DrafterChannel final {
 public:
  DrafterChannel() = default;
  explicit DrafterChannel(const BlockView& view) : view_(view) {}

  const BlockView& view() const { return view_; }
  uint64_t verified() const;
  WaitResult WaitVerified(uint64_t step, Clock::time_point deadline,
                          absl::FunctionRef<bool()> stopped) const;

  // Copies round `step` into `round`; false when it is not there in one piece: overwritten, of
  // another epoch, or with an impossible number of lanes. The lanes themselves are not checked, see
  // ValidLane.
  bool Read(uint64_t step, Round& round) const;
  // Whether a lane's numbers lie inside the block and its tokens below V.
  bool ValidLane(const LaneRecord& lane, const Round& round) const;
  // Whether the verifier may have begun to overwrite the features of `step`.
  bool MayBeOverwritten(uint64_t step) const;

  // Writes the answers of `step`; `drafts` are complete records.
  void Publish(uint64_t step, absl::Span<const DraftRecord> drafts) const;

  // Device mode: the drafter's queue has taken round `step` and has finished everything before it.
  void Acknowledge(uint64_t step) const;

  // Answers one exchange of the probe.
  WaitResult Pong(uint64_t i, Clock::time_point deadline, absl::FunctionRef<bool()> stopped) const;

 private:
  BlockView view_;
};

}  // namespace tandem::ipc
