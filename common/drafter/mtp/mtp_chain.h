#pragma once

#include <cstdint>
#include <memory>
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
  // What the ops read about the rows of one depth, staged on the host.
  struct Rows {
    std::vector<const float*> features;  // [R], depth 1 only
    std::vector<int32_t> tokens;         // [R], depth 1 only
    std::vector<int32_t> slots;          // [R]
    std::vector<int64_t> positions;      // [R]
    std::vector<int64_t> first;          // [R]
    std::vector<int32_t> queries;        // [Q] rows that attend
    std::vector<const float*> z_prev;    // [D] shifts of the first D queries, which choose a draft
  };

  MtpChain(Backend* backend, MtpWeights weights, const Mtp::Options& options)
      : backend_(backend), weights_(std::move(weights)), options_(options) {}
  absl::Status Allocate();
  Rows CertainRows(absl::Span<const MtpFeed> feeds) const;
  Rows DraftedRows(absl::Span<const MtpFeed> feeds, int k) const;
  void RunDepth(const Rows& rows, int k);
  void Fuse(int rows, int k);
  void Attend(int rows, int queries, int k);
  void MixAndChoose(int rows, int k);
  float* SlotShift(int32_t slot) const;
  float* Shift(int k, int query) const;  // z of a query of depth k

  Backend* const backend_;
  const MtpWeights weights_;
  const Mtp::Options options_;
  int ring_size_ = 0;

  // Backend memory. R = max_rows, B = max_lanes, S = slots.
  View<float> keys_;             // [S, 512, ring_size] and padding, see AttendArgs
  View<float> values_;           // [S, ring_size, 512]
  View<float> slot_z_;           // [S, C] z of the slot's last certain position
  View<const float*> features_;  // [R]
  View<const float*> z_prev_;    // [B]
  View<int32_t> tokens_;         // [R]
  View<int32_t> row_slots_;      // [R]
  View<int64_t> row_positions_;  // [R]
  View<int64_t> row_first_;      // [R]
  View<int32_t> query_rows_;     // [2B]
  View<float> x_;                // [R, C]
  View<float> attended_;         // [2B, C] x after attention
  View<float> z_[2];             // [2B, C] of even and odd depths
  View<float> o_;                // [B, C]
  View<float> logits_;           // [B, V]
  View<int32_t> drafts_;         // [kMaxDrafts, B]
  View<float> scratch_;
};

}  // namespace tandem
