#include "common/drafter/mtp/mtp_chain.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "kernels/attend/attend.h"
#include "kernels/draft_fuse/draft_fuse.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/draft_mix/draft_mix.h"

namespace tandem {
namespace {

static_assert(kMtpQueryHeads == kAttendQueryHeads && kMtpKeyHeads == kAttendKeyHeads &&
              kMtpHeadWidth == kAttendHeadWidth);

template <class T>
void Upload(Backend* backend, View<T> to, const std::vector<T>& from) {
  CHECK_LE(from.size(), to.size);
  backend->CopyIn(to.data, from.data(), from.size() * sizeof(T));
}

// Allocates buffers and adds up what could not be had.
struct Allocator {
  template <class T>
  View<T> Take(size_t count) {
    const View<T> view = {static_cast<T*>(backend->Allocate(count * sizeof(T))), count};
    if (view.data == nullptr) missing += count * sizeof(T);
    return view;
  }
  Backend* backend;
  size_t missing = 0;
};

// Feeds, all in front, that want a draft of depth k.
int Drafting(absl::Span<const MtpFeed> feeds, int k) {
  return static_cast<int>(std::count_if(feeds.begin(), feeds.end(),
                                        [k](const MtpFeed& feed) { return feed.wanted >= k; }));
}

// Base position j, depth k: one position after depth k - 1, where the key of the same token will
// stand once it is certain.
int64_t PositionOfDepth(int64_t j, int k) { return j + k - 1; }

}  // namespace

absl::StatusOr<std::unique_ptr<MtpChain>> MtpChain::Create(Backend* backend, MtpWeights weights,
                                                           const Mtp::Options& options) {
  std::unique_ptr<MtpChain> chain(new MtpChain(backend, std::move(weights), options));
  RETURN_IF_ERROR(chain->Allocate());
  return chain;
}

absl::Status MtpChain::Allocate() {
  const size_t c = static_cast<size_t>(weights_.config.width);
  const size_t window = static_cast<size_t>(weights_.config.window);
  const size_t rows = static_cast<size_t>(options_.max_rows);
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  const size_t slots = static_cast<size_t>(options_.slots);
  ring_size_ = weights_.config.window + kMaxDrafts;
  const size_t ring = slots * ring_size_ * kAttendKeyWidth;
  const size_t attend = rows * (c + 2 * kAttendKeyWidth) +
                        2 * lanes * (c + 3 * kAttendQueryWidth + kAttendQueryHeads * window);
  Allocator allocator{.backend = backend_};
  keys_ = allocator.Take<float>(ring + kAttendKeyPadding);
  values_ = allocator.Take<float>(ring);
  slot_z_ = allocator.Take<float>(slots * c);
  features_ = allocator.Take<const float*>(rows);
  z_prev_ = allocator.Take<const float*>(lanes);
  tokens_ = allocator.Take<int32_t>(rows);
  row_slots_ = allocator.Take<int32_t>(rows);
  row_positions_ = allocator.Take<int64_t>(rows);
  row_first_ = allocator.Take<int64_t>(rows);
  query_rows_ = allocator.Take<int32_t>(2 * lanes);
  x_ = allocator.Take<float>(rows * c);
  attended_ = allocator.Take<float>(2 * lanes * c);
  z_[0] = allocator.Take<float>(2 * lanes * c);
  z_[1] = allocator.Take<float>(2 * lanes * c);
  o_ = allocator.Take<float>(lanes * c);
  logits_ = allocator.Take<float>(lanes * options_.vocab);
  drafts_ = allocator.Take<int32_t>(lanes * kMaxDrafts);
  scratch_ = allocator.Take<float>(std::max({5 * c * rows, attend, 6 * c * lanes}));
  if (allocator.missing == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory for the sidecar's buffers: ", allocator.missing,
                   " more bytes are needed on the ", backend_->name(), " backend for ", slots,
                   " slots of ", ring_size_, " keys and values; use fewer slots"));
}

float* MtpChain::SlotShift(int32_t slot) const {
  return slot_z_.data + static_cast<size_t>(slot) * weights_.config.width;
}

float* MtpChain::Shift(int k, int query) const {
  return z_[k % 2].data + static_cast<size_t>(query) * weights_.config.width;
}

void MtpChain::Run(absl::Span<const MtpFeed> feeds) {
  const size_t shift_bytes = weights_.config.width * sizeof(float);
  int depths = 0;
  for (const MtpFeed& feed : feeds) {
    if (feed.cold) backend_->Zero(SlotShift(feed.slot), shift_bytes);
    depths = std::max(depths, feed.wanted);
  }
  RunDepth(CertainRows(feeds), 1);
  for (size_t i = 0; i < feeds.size(); ++i)
    backend_->Copy(SlotShift(feeds[i].slot), Shift(1, static_cast<int>(i)), shift_bytes);
  for (int k = 2; k <= depths; ++k) RunDepth(DraftedRows(feeds.first(Drafting(feeds, k)), k), k);

  std::vector<int32_t> drafts(drafts_.size);
  if (depths > 0) backend_->CopyOut(drafts.data(), drafts_.data, drafts.size() * sizeof(int32_t));
  backend_->Wait();
  for (size_t i = 0; i < feeds.size(); ++i) {
    for (int k = 0; k < feeds[i].wanted; ++k)
      feeds[i].drafts[k] = drafts[static_cast<size_t>(k) * options_.max_lanes + i];
  }
}

// All certain positions need keys and values. Queries: the last position of every feed in order,
// then the one before it where this round brings it, whose z is the last one's shift.
MtpChain::Rows MtpChain::CertainRows(absl::Span<const MtpFeed> feeds) const {
  const size_t feature_width = 3 * static_cast<size_t>(weights_.config.width);
  Rows rows;
  std::vector<int32_t> befores;
  for (const MtpFeed& feed : feeds) {
    for (int i = 0; i < feed.count; ++i) {
      rows.features.push_back(feed.features + i * feature_width);
      rows.tokens.push_back(feed.next_tokens[i]);
      rows.slots.push_back(feed.slot);
      rows.positions.push_back(feed.position + i);
      rows.first.push_back(feed.first);
    }
    const int32_t last = static_cast<int32_t>(rows.slots.size()) - 1;
    rows.queries.push_back(last);
    if (feed.wanted > 0) {
      const int before = static_cast<int>(feeds.size() + befores.size());
      rows.z_prev.push_back(feed.count > 1 ? Shift(1, before) : SlotShift(feed.slot));
    }
    if (feed.count > 1) befores.push_back(last - 1);
  }
  rows.queries.insert(rows.queries.end(), befores.begin(), befores.end());
  return rows;
}

// One row per feed, conditioned on its draft of depth k - 1, with the shift of that depth.
MtpChain::Rows MtpChain::DraftedRows(absl::Span<const MtpFeed> feeds, int k) const {
  Rows rows;
  for (const MtpFeed& feed : feeds) {
    const int32_t row = static_cast<int32_t>(rows.slots.size());
    rows.slots.push_back(feed.slot);
    rows.positions.push_back(PositionOfDepth(feed.position + feed.count - 1, k));
    rows.first.push_back(feed.first);
    rows.queries.push_back(row);
    rows.z_prev.push_back(Shift(k - 1, row));
  }
  return rows;
}

void MtpChain::RunDepth(const Rows& rows, int k) {
  const int count = static_cast<int>(rows.slots.size());
  Upload(backend_, features_, rows.features);
  Upload(backend_, tokens_, rows.tokens);
  Upload(backend_, row_slots_, rows.slots);
  Upload(backend_, row_positions_, rows.positions);
  Upload(backend_, row_first_, rows.first);
  Upload(backend_, query_rows_, rows.queries);
  Upload(backend_, z_prev_, rows.z_prev);
  Fuse(count, k);
  Attend(count, static_cast<int>(rows.queries.size()), k);
  MixAndChoose(static_cast<int>(rows.z_prev.size()), k);
}

void MtpChain::Fuse(int rows, int k) {
  const MtpWeights& w = weights_;
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  const View<const int32_t> drafted = k > 1 ? drafts_.Sub((k - 2) * lanes, lanes) : tokens_;
  backend_->DraftFuse(
      {.rows = rows,
       .width = w.config.width,
       .features = {k == 1 ? features_.data : nullptr, features_.size},
       .previous = o_,
       .tokens = drafted,
       .embedding = {options_.embedding, static_cast<size_t>(options_.vocab) * w.config.width},
       .depth = w.DepthRow(k),
       .lh_weight = w.lh.weight,
       .lh_bias = w.lh.bias,
       .lf0_weight = w.lf0.weight,
       .lf0_bias = w.lf0.bias,
       .lf1_weight = w.lf1.weight,
       .lf1_bias = w.lf1.bias,
       .lhd_weight = w.lhd.weight,
       .lhd_bias = w.lhd.bias,
       .le_weight = w.le.weight,
       .le_bias = w.le.bias,
       .ln0_weight = w.ln0.weight,
       .ln0_bias = w.ln0.bias,
       .fproj = w.fproj,
       .proj = w.proj,
       .x = x_,
       .scratch = scratch_});
}

void MtpChain::Attend(int rows, int queries, int k) {
  const MtpWeights& w = weights_;
  backend_->Attend({.rows = rows,
                    .queries = queries,
                    .width = w.config.width,
                    .ring_size = ring_size_,
                    .window = w.config.window,
                    .x = x_,
                    .slots = row_slots_,
                    .positions = row_positions_,
                    .first = row_first_,
                    .query_rows = query_rows_,
                    .ln1_weight = w.ln1.weight,
                    .ln1_bias = w.ln1.bias,
                    .ln2_weight = w.ln2.weight,
                    .ln2_bias = w.ln2.bias,
                    .q_norm = w.q_norm,
                    .k_norm = w.k_norm,
                    .query = w.query,
                    .key = w.key,
                    .value = w.value,
                    .gate = w.gate,
                    .output = w.output,
                    .keys = keys_,
                    .values = values_,
                    .x_out = attended_,
                    .z = z_[k % 2],
                    .scratch = scratch_});
}

void MtpChain::MixAndChoose(int rows, int k) {
  const MtpWeights& w = weights_;
  if (rows == 0) return;
  backend_->DraftMix({.rows = rows,
                      .width = w.config.width,
                      .z = z_[k % 2],
                      .z_prev = {z_prev_.data, z_prev_.size},
                      .x_k = w.x_k,
                      .key = w.ffn_key,
                      .value = w.ffn_value,
                      .x = attended_,
                      .scratch = scratch_});
  backend_->DraftHead({.rows = rows,
                       .width = w.config.width,
                       .vocab = options_.vocab,
                       .x = attended_,
                       .lo_weight = w.lo.weight,
                       .lo_bias = w.lo.bias,
                       .head = options_.head,
                       .draft_vocab = w.draft_vocab,
                       .o = o_,
                       .logits = logits_,
                       .tokens = drafts_.Sub((k - 1) * static_cast<size_t>(options_.max_lanes),
                                             options_.max_lanes)});
}

}  // namespace tandem
