#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_feed.h"
#include "common/drafter/mtp/mtp_inputs.h"
#include "common/drafter/mtp/mtp_weights.h"
#include "kernels/backend.h"
#include "kernels/draft_exchange/draft_exchange.h"
#include "kernels/view.h"

namespace tandem {

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

  // The same for feeds whose last positions only the device knows, and its answers in the round's
  // records; nothing is waited for. Every row gets a key, which for a position that did not become
  // certain is overwritten, by the chain or by the next round, before a query sees it. `first` and
  // `last` among the round's calls take its times.
  void Enqueue(const DeviceRound& round, absl::Span<const MtpFeed> feeds, bool first, bool last);
  // Waits for the backend and delivers what Enqueue promised.
  void Finish();

 private:
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
  MtpChain(Backend* backend, MtpWeights weights, const Mtp::Options& options)
      : backend_(backend), weights_(std::move(weights)), options_(options) {}
  absl::Status Allocate();
  absl::Status Fill();
  // Whether the draft head's rows are copied from the base model's head, so that drafting reads
  // only them. Where they are most of it, the base model's own rows are in the caches already.
  bool OwnHead() const;
  void RunOps(const MtpCounts& counts, const MtpInputs& inputs);
  void CopyFed();
  DraftResolveArgs Resolve(const DeviceRound& round, size_t lanes, const MtpInputs& inputs);
  GraphKey KeyOf(const MtpCounts& counts) const;
  MtpInputs LayOut(const MtpCounts& counts);
  // Lays out, writes and copies in what a round reads.
  MtpInputs Upload(absl::Span<const MtpFeed> feeds, const MtpCounts& counts);
  void WriteCertain(absl::Span<const MtpFeed> feeds, const MtpInputs& inputs) const;
  static void WriteDrafted(absl::Span<const MtpFeed> feeds, const MtpInputs& inputs);
  Rows CertainRows(const MtpCounts& counts, const MtpInputs& inputs) const;
  Rows DraftedRows(const MtpCounts& counts, const MtpInputs& inputs, int k) const;
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
  // What Finish delivers, the feeds of all Enqueues.
  std::vector<int32_t*> pending_;
  size_t copied_ = 0;              // of them, to host_fed_
  std::vector<int32_t> host_fed_;  // [S]

  // Backend memory. R = max_rows, B = max_lanes, S = slots, N = entries of draft_vocab.
  Matrix head_;                   // [N, C], or the base model's [V, C]
  View<int32_t> head_rows_;       // [N] where head_ has the rows of draft_vocab
  View<float> keys_;              // [S, 512, ring_size] and padding, see AttendArgs
  View<float> values_;            // [S, ring_size, 512]
  View<float> slot_z_;            // [S, 2, C] z of the last even and the last odd position
  View<float> no_z_;              // [C] zeros, the shift of a cold slot's first position
  View<std::byte> inputs_;        // of the round, see MtpInputs
  View<float*> chain_z_[2];       // [B] rows of z_, for even and odd depths
  View<int32_t> chain_queries_;   // [B] 0, 1, 2 ...
  View<float> z_;                 // [2, B, C] of even and odd depths
  View<float> x_;                 // [R, C]
  View<float> attended_;          // [2B, C] x after attention
  View<float> o_;                 // [B, C]
  View<float> logits_;            // [B, rows of head_]
  View<int32_t> drafts_;          // [kMaxDrafts, B]
  View<DraftResolveLane> lanes_;  // [B]
  View<int32_t> fed_;             // [B]
  View<float> unused_z_;          // [B, C]
  View<float> scratch_;
};

}  // namespace tandem
