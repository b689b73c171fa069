#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_weights.h"
#include "kernels/backend.h"
#include "kernels/lanes.h"
#include "kernels/view.h"

namespace tandem {

// The certain positions of one slot in one computation, checked and trimmed.
struct MtpFeed {
  int32_t slot = 0;
  bool cold = false;                     // forget the slot's shift first
  int32_t count = 0;                     // positions, 1 .. window + 1
  int32_t wanted = 0;                    // drafts after the last position, 0 .. kMaxDrafts
  int64_t position = 0;                  // of the first one
  int64_t first = 0;                     // lowest position of the slot that has a key
  const float* features = nullptr;       // [count, 3C] in backend memory
  const int32_t* next_tokens = nullptr;  // [count]
  int32_t* drafts = nullptr;             // [wanted] out
};

// Buffers and arithmetic of an MTP sidecar: feeds certain positions and runs draft chains for
// several slots at once. Knows nothing of generations or rounds.
class MtpChain final {
 public:
  static absl::StatusOr<std::unique_ptr<MtpChain>> Create(Backend* backend, MtpWeights weights,
                                                          const Mtp::Options& options);
  MtpChain(const MtpChain&) = delete;
  MtpChain& operator=(const MtpChain&) = delete;

  // At most max_lanes feeds of at most max_rows positions together, sorted by `wanted`, most first;
  // slots distinct.
  void Run(absl::Span<const MtpFeed> feeds);

 private:
  // How many rows the ops of a round have; decides every launch and the layout of its inputs.
  struct Counts {
    int feeds = 0;
    int rows = 0;                                 // R certain positions
    int queries = 0;                              // Q of them attend
    std::array<int, kMaxDrafts + 1> drafts = {};  // [k] feeds that want a draft of depth k, k > 0
    bool prompt = false;  // some feed has more positions than drafts can have made certain
  };
  // What the ops of one depth read about its rows, in backend memory.
  struct Rows {
    int count = 0;                      // R
    int queries = 0;                    // Q
    int drafts = 0;                     // D
    View<const float* const> features;  // [R], depth 1 only
    View<const int32_t> tokens;         // [R] token after the row's position
    View<const int32_t> slots;          // [R]
    View<const int64_t> positions;      // [R]
    View<const int64_t> first;          // [R]
    View<const int32_t> query_rows;     // [Q] rows that attend
    View<float* const> z;               // [Q] where their z goes
    View<float* const> z_prev;          // [D] shifts of the first D queries, which choose a draft
  };
  // The inputs of one round: written on the host, read by the ops from a copy in backend memory.
  template <class T>
  struct Input {
    View<T> host;
    View<const T> device;
  };
  struct Inputs {
    Input<const float*> features;  // [R], as all below up to slots
    Input<int64_t> positions;
    Input<int64_t> first;
    Input<int32_t> tokens;
    Input<int32_t> slots;
    Input<int32_t> query_rows;                                   // [Q]
    Input<float*> z;                                             // [Q]
    Input<float*> z_prev;                                        // [drafts of depth 1]
    Input<int32_t> draft_slots;                                  // [drafts of depth 1]
    Input<int64_t> draft_first;                                  // [drafts of depth 1]
    std::array<Input<int64_t>, kMaxDrafts + 1> draft_positions;  // [k]: [drafts of depth k], k > 1
    size_t bytes = 0;                                            // of all
  };

  MtpChain(Backend* backend, MtpWeights weights, const Mtp::Options& options)
      : backend_(backend), weights_(std::move(weights)), options_(options) {}
  absl::Status Allocate();
  absl::Status Fill();
  // Whether the draft head's rows are copied from the base model's head, so that drafting reads
  // only them. Where they are most of it, the base model's own rows are in the caches already.
  bool OwnHead() const;
  static Counts CountsOf(absl::Span<const MtpFeed> feeds);
  GraphKey KeyOf(const Counts& counts) const;
  Inputs LayOut(const Counts& counts);
  void WriteCertain(absl::Span<const MtpFeed> feeds, const Inputs& inputs) const;
  static void WriteDrafted(absl::Span<const MtpFeed> feeds, const Inputs& inputs);
  Rows CertainRows(const Counts& counts, const Inputs& inputs) const;
  Rows DraftedRows(const Counts& counts, const Inputs& inputs, int k) const;
  void RunDepth(const Rows& rows, int k);
  void Fuse(const Rows& rows, int k);
  void Attend(const Rows& rows);
  void MixAndChoose(const Rows& rows, int k);
  float* SlotShift(int32_t slot, int64_t position) const;

  Backend* const backend_;
  const MtpWeights weights_;
  const Mtp::Options options_;
  int ring_size_ = 0;
  std::vector<std::byte> host_inputs_;
  std::vector<int32_t> host_drafts_;  // [kMaxDrafts, B]

  // Backend memory. R = max_rows, B = max_lanes, S = slots, N = entries of draft_vocab.
  Matrix head_;                  // [N, C], or the base model's [V, C]
  View<int32_t> head_rows_;      // [N] where head_ has the rows of draft_vocab
  View<float> keys_;             // [S, 512, ring_size] and padding, see AttendArgs
  View<float> values_;           // [S, ring_size, 512]
  View<float> slot_z_;           // [S, 2, C] z of the last even and the last odd position
  View<float> no_z_;             // [C] zeros, the shift of a cold slot's first position
  View<std::byte> inputs_;       // of the round, see Inputs
  View<float*> chain_z_[2];      // [B] rows of z_, for even and odd depths
  View<int32_t> chain_queries_;  // [B] 0, 1, 2 ...
  View<float> z_;                // [2, B, C] of even and odd depths
  View<float> x_;                // [R, C]
  View<float> attended_;         // [2B, C] x after attention
  View<float> o_;                // [B, C]
  View<float> logits_;           // [B, rows of head_]
  View<int32_t> drafts_;         // [kMaxDrafts, B]
  View<float> scratch_;
};

}  // namespace tandem
