#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/config.h"
#include "kernels/backend.h"

namespace tandem {

class RecurrentState;

// Ownership of one slot; gives it back when destroyed. Empty after a move.
class Slot final {
 public:
  Slot() = default;
  ~Slot();
  Slot(Slot&& other) noexcept;
  Slot& operator=(Slot&& other) noexcept;

  explicit operator bool() const { return owner_ != nullptr; }
  int index() const { return index_; }
  // Distinguishes successive owners of one slot; never 0.
  uint32_t generation() const { return generation_; }

 private:
  friend class RecurrentState;
  Slot(RecurrentState* owner, int index, uint32_t generation)
      : owner_(owner), index_(index), generation_(generation) {}
  RecurrentState* owner_ = nullptr;
  int index_ = -1;
  uint32_t generation_ = 0;
};

// A settled state copied to host memory; loads only into a state of the same dimensions.
using SavedState = std::vector<uint8_t>;

// The recurrent states of all sequences in S fixed slots, and each slot's log of the last pass's
// provisional rows. Per slot and layer: attention shift [C], ffn shift [C], wkv [H, 64 value, 64
// key]; the log holds kMaxDrafts entries of both shifts and of w, k, v, u, b. Owned and used by one
// thread. Must outlive its Slots.
class RecurrentState final {
 public:
  // RESOURCE_EXHAUSTED, saying how much memory was needed for how many slots, when the backend has
  // too little.
  static absl::StatusOr<std::unique_ptr<RecurrentState>> Create(Backend* backend,
                                                                const ModelConfig& config,
                                                                int slots);
  // Backend memory that Create asks for.
  static size_t Bytes(const ModelConfig& config, int slots);
  ~RecurrentState();
  RecurrentState(const RecurrentState&) = delete;
  RecurrentState& operator=(const RecurrentState&) = delete;

  // A zeroed slot; RESOURCE_EXHAUSTED when all are in use.
  absl::StatusOr<Slot> Acquire();
  int slots() const;
  int free_slots() const;

  // The next pass, Settle or Save keeps `count` (0 .. kMaxDrafts) log entries of the slot's last
  // pass. Set on the device by the Accept op for every lane of a pass; called from outside only to
  // keep fewer.
  void SetAccepted(const Slot& slot, int count);

  // Replays the accepted log entries into the committed state and empties the log. Whatever reads a
  // state from outside a pass settles first.
  void Settle(const Slot& slot);

  SavedState Save(const Slot& slot);  // settles
  absl::Status Load(const Slot& slot, const SavedState& saved);

  int32_t* accepted() const;  // [S], backend memory; see Lanes::accepted

  // Addresses for the state ops: layer-local bases in backend memory, with one stride between slots
  // (in floats).
  struct Layer {
    float* att_shift;      // [S] x [C]
    float* ffn_shift;      // [S] x [C]
    float* wkv;            // [S] x [H, 64, 64]
    float* att_shift_log;  // [S] x [kMaxDrafts, C]
    float* ffn_shift_log;  // [S] x [kMaxDrafts, C]
    float* wkv_log;        // [S] x [kMaxDrafts, 5, C]: decay, k, v, u, b
  };
  Layer layer(int index) const;
  size_t state_stride() const;  // between slots of the first three, in floats
  size_t log_stride() const;    // between slots of the last three, in floats

 private:
  friend class Slot;
  struct Impl;
  explicit RecurrentState(std::unique_ptr<Impl> impl);
  void Release(int index);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
