#include "common/drafter/mtp/mtp_chain.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_head.h"
#include "kernels/attend/attend.h"
#include "kernels/draft_fuse/draft_fuse.h"
#include "kernels/draft_head/draft_head.h"
#include "kernels/draft_mix/draft_mix.h"
#include "kernels/linear/linear.h"

namespace tandem {
namespace {

static_assert(kMtpQueryHeads == kAttendQueryHeads && kMtpKeyHeads == kAttendKeyHeads &&
              kMtpHeadWidth == kAttendHeadWidth);

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

// Base position j, depth k: one position after depth k - 1, where the key of the same token will
// stand once it is certain.
int64_t PositionOfDepth(int64_t j, int k) { return j + k - 1; }

// Pointers that are only read through.
View<const float* const> Readable(View<float* const> rows) { return {rows.data, rows.size}; }

}  // namespace

absl::StatusOr<std::unique_ptr<MtpChain>> MtpChain::Create(Backend* backend, MtpWeights weights,
                                                           const Mtp::Options& options) {
  std::unique_ptr<MtpChain> chain(new MtpChain(backend, std::move(weights), options));
  RETURN_IF_ERROR(chain->Allocate());
  RETURN_IF_ERROR(chain->Fill());
  return chain;
}

absl::Status MtpChain::Allocate() {
  const size_t c = static_cast<size_t>(weights_.config.width);
  const size_t rows = static_cast<size_t>(options_.max_rows);
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  const size_t slots = static_cast<size_t>(options_.slots);
  const size_t choices = weights_.draft_vocab.size;
  ring_size_ = weights_.config.window + kMaxDrafts;
  const size_t ring = slots * ring_size_ * kAttendKeyWidth;
  head_ = options_.head;
  if (OwnHead()) {
    head_ = {.format = weights_.proj.format,
             .rows = static_cast<int>(choices),
             .cols = weights_.config.width};
  }
  MtpCounts most = {
      .feeds = options_.max_lanes, .rows = options_.max_rows, .queries = 2 * options_.max_lanes};
  most.drafts.fill(options_.max_lanes);
  host_inputs_.resize(LayOut(most).bytes);
  host_drafts_.resize(kMaxDrafts * lanes);
  host_fed_.resize(slots);
  Allocator allocator{.backend = backend_};
  keys_ = allocator.Take<float>(ring + kAttendKeyPadding);
  values_ = allocator.Take<float>(ring);
  slot_z_ = allocator.Take<float>(slots * 2 * c);
  no_z_ = allocator.Take<float>(c);
  inputs_ = allocator.Take<std::byte>(host_inputs_.size());
  for (View<float*>& rows_of_depth : chain_z_) rows_of_depth = allocator.Take<float*>(lanes);
  chain_queries_ = allocator.Take<int32_t>(lanes);
  z_ = allocator.Take<float>(2 * lanes * c);
  x_ = allocator.Take<float>(rows * c);
  attended_ = allocator.Take<float>(2 * lanes * c);
  o_ = allocator.Take<float>(lanes * c);
  logits_ = allocator.Take<float>(lanes * static_cast<size_t>(head_.rows));
  drafts_ = allocator.Take<int32_t>(lanes * kMaxDrafts);
  lanes_ = allocator.Take<DraftResolveLane>(lanes);
  fed_ = allocator.Take<int32_t>(lanes);
  unused_z_ = allocator.Take<float>(lanes * c);
  const size_t attend = AttendScratch(rows, 2 * lanes, c, weights_.config.window);
  scratch_ = allocator.Take<float>(
      std::max({5 * c * rows, attend, 6 * c * lanes, static_cast<size_t>(options_.vocab)}));
  head_rows_ = allocator.Take<int32_t>(choices);
  if (OwnHead()) head_.data = allocator.Take<std::byte>(backend_->PackedBytes(head_)).data;
  // The widest inputs: the hidden layer, or those of the four projections of the attention.
  const int most_rows = std::max(options_.max_rows, 2 * options_.max_lanes);
  if (!backend_->ReserveLinear({.rows = most_rows, .inputs = 4 * c})) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the sidecar's linear ops of ", most_rows, " rows on the ",
                     backend_->name(), " backend; lower --max-sequences of the verifier"));
  }
  if (allocator.missing == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "no memory for the sidecar's buffers: ", allocator.missing, " more bytes are needed on the ",
      backend_->name(), " backend for ", slots, " slots of ", ring_size_,
      " keys and values; use fewer slots: lower "
      "--max-sequences of the verifier"));
}

// What stays the same in every round.
absl::Status MtpChain::Fill() {
  const size_t c = static_cast<size_t>(weights_.config.width);
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  std::vector<float*> rows(lanes);
  for (size_t depth = 0; depth < 2; ++depth) {
    for (size_t i = 0; i < lanes; ++i) rows[i] = z_.data + (depth * lanes + i) * c;
    backend_->CopyIn(chain_z_[depth].data, rows.data(), lanes * sizeof(float*));
  }
  std::vector<int32_t> numbers(std::max(lanes, head_rows_.size));
  std::iota(numbers.begin(), numbers.end(), 0);
  backend_->CopyIn(chain_queries_.data, numbers.data(), lanes * sizeof(int32_t));
  if (OwnHead()) {
    backend_->CopyIn(head_rows_.data, numbers.data(), head_rows_.size * sizeof(int32_t));
    return GatherHead(backend_, options_.head, weights_.draft_vocab, head_, x_, scratch_);
  }
  backend_->Copy(head_rows_.data, weights_.draft_vocab.data, head_rows_.size * sizeof(int32_t));
  return absl::OkStatus();
}

bool MtpChain::OwnHead() const {
  return 2 * weights_.draft_vocab.size <= static_cast<size_t>(options_.vocab);
}

float* MtpChain::SlotShift(int32_t slot, int64_t position) const {
  return slot_z_.data + (static_cast<size_t>(slot) * 2 + position % 2) * weights_.config.width;
}

GraphKey MtpChain::KeyOf(const MtpCounts& counts) const {
  GraphKey key = {
      .owner = keys_.data,
      .values = {static_cast<uint64_t>(counts.feeds), static_cast<uint64_t>(counts.rows),
                 static_cast<uint64_t>(counts.queries)}};
  static_assert(kMaxDrafts <= 8, "two words hold four depths each");
  for (int k = 1; k <= kMaxDrafts; ++k)
    key.values[3 + (k - 1) / 4] |= static_cast<uint64_t>(counts.drafts[k]) << ((k - 1) % 4 * 16);
  return key;
}

MtpInputs MtpChain::LayOut(const MtpCounts& counts) {
  return MtpInputs::Divide(counts, host_inputs_.data(), inputs_.data);
}

// All certain positions need keys and values. Queries: the last position of every feed in order,
// then the one before it where this round brings it, whose z is the last one's shift.
void MtpChain::WriteCertain(absl::Span<const MtpFeed> feeds, const MtpInputs& inputs) const {
  const size_t feature_width = 3 * static_cast<size_t>(weights_.config.width);
  int32_t row = 0;
  size_t before = feeds.size();
  for (size_t f = 0; f < feeds.size(); ++f) {
    const MtpFeed& feed = feeds[f];
    const int known = feed.count - feed.chooses;
    for (int i = 0; i < feed.rows(); ++i, ++row) {
      inputs.features.host[row] = feed.features + i * feature_width;
      inputs.positions.host[row] = feed.position + i;
      inputs.first.host[row] = feed.first;
      inputs.tokens.host[row] = i < known ? feed.next_tokens[i] : 0;
      inputs.slots.host[row] = feed.slot;
    }
    const int64_t last = feed.position + feed.count - 1;
    const int32_t last_row = row - 1 - feed.provisional;
    inputs.query_rows.host[f] = last_row;
    inputs.z.host[f] = SlotShift(feed.slot, last);
    float* const previous = last > 0 ? SlotShift(feed.slot, last - 1) : no_z_.data;
    if (feed.rows() > 1) {
      inputs.query_rows.host[before] = last_row - 1;
      inputs.z.host[before++] = previous;
    }
    if (feed.wanted > 0) {
      const bool none = feed.cold && feed.count == 1;
      inputs.z_prev.host[f] = none ? no_z_.data : previous;
    }
  }
}

void MtpChain::WriteDrafted(absl::Span<const MtpFeed> feeds, const MtpInputs& inputs) {
  for (size_t f = 0; f < inputs.draft_slots.host.size; ++f) {
    const MtpFeed& feed = feeds[f];
    inputs.draft_slots.host[f] = feed.slot;
    inputs.draft_first.host[f] = feed.first;
    for (int k = 2; k <= feed.wanted; ++k)
      inputs.draft_positions[k].host[f] = PositionOfDepth(feed.position + feed.count - 1, k);
  }
}

MtpChain::Rows MtpChain::CertainRows(const MtpCounts& counts, const MtpInputs& inputs) const {
  return {.count = counts.rows,
          .queries = counts.queries,
          .drafts = counts.drafts[1],
          .features = inputs.features.device,
          .tokens = inputs.tokens.device,
          .slots = inputs.slots.device,
          .positions = inputs.positions.device,
          .first = inputs.first.device,
          .query_rows = inputs.query_rows.device,
          .z = inputs.z.device,
          .z_prev = inputs.z_prev.device};
}

// One row per feed, conditioned on its draft of depth k - 1, whose z is its shift.
MtpChain::Rows MtpChain::DraftedRows(const MtpCounts& counts, const MtpInputs& inputs,
                                     int k) const {
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  return {.count = counts.drafts[k],
          .queries = counts.drafts[k],
          .drafts = counts.drafts[k],
          .tokens = drafts_.Sub((k - 2) * lanes, lanes),
          .slots = inputs.draft_slots.device,
          .positions = inputs.draft_positions[k].device,
          .first = inputs.draft_first.device,
          .query_rows = chain_queries_,
          .z = {chain_z_[k % 2].data, lanes},
          .z_prev = k == 2 ? inputs.z.device : View<float* const>(chain_z_[(k - 1) % 2])};
}

MtpInputs MtpChain::Upload(absl::Span<const MtpFeed> feeds, const MtpCounts& counts) {
  MtpInputs inputs = LayOut(counts);
  WriteCertain(feeds, inputs);
  WriteDrafted(feeds, inputs);
  backend_->CopyIn(inputs_.data, host_inputs_.data(), inputs.bytes);
  return inputs;
}

void MtpChain::Run(absl::Span<const MtpFeed> feeds) {
  const MtpCounts counts = CountsOf(feeds);
  const MtpInputs inputs = Upload(feeds, counts);
  RunOps(counts, inputs);
  const size_t lanes = static_cast<size_t>(options_.max_lanes);
  const int depths = feeds.empty() ? 0 : feeds.front().wanted;
  if (depths > 0)
    backend_->CopyOut(host_drafts_.data(), drafts_.data, depths * lanes * sizeof(int32_t));
  backend_->Wait();
  for (size_t f = 0; f < feeds.size(); ++f) {
    for (int k = 0; k < feeds[f].wanted; ++k)
      feeds[f].drafts[k] = host_drafts_[static_cast<size_t>(k) * lanes + f];
  }
}

void MtpChain::RunOps(const MtpCounts& counts, const MtpInputs& inputs) {
  const auto enqueue = [&] {
    RunDepth(CertainRows(counts, inputs), 1);
    for (int k = 2; k <= kMaxDrafts && counts.drafts[k] > 0; ++k)
      RunDepth(DraftedRows(counts, inputs, k), k);
  };
  // Prompts come in every length, and are long enough to hide the launches.
  if (counts.prompt) {
    enqueue();
  } else {
    backend_->RunRecorded(KeyOf(counts), enqueue);
  }
}

void MtpChain::RunDepth(const Rows& rows, int k) {
  Fuse(rows, k);
  Attend(rows);
  if (rows.drafts > 0) MixAndChoose(rows, k);
}

void MtpChain::Fuse(const Rows& rows, int k) {
  const MtpWeights& w = weights_;
  backend_->DraftFuse(
      {.rows = rows.count,
       .width = w.config.width,
       .features = rows.features,
       .previous = o_,
       .tokens = rows.tokens,
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

void MtpChain::Attend(const Rows& rows) {
  const MtpWeights& w = weights_;
  backend_->Attend({.rows = rows.count,
                    .queries = rows.queries,
                    .width = w.config.width,
                    .ring_size = ring_size_,
                    .window = w.config.window,
                    .x = x_,
                    .slots = rows.slots,
                    .positions = rows.positions,
                    .first = rows.first,
                    .query_rows = rows.query_rows,
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
                    .z = rows.z,
                    .scratch = scratch_});
}

void MtpChain::MixAndChoose(const Rows& rows, int k) {
  const MtpWeights& w = weights_;
  backend_->DraftMix({.rows = rows.drafts,
                      .width = w.config.width,
                      .z = Readable(rows.z),
                      .z_prev = Readable(rows.z_prev),
                      .x_k = w.x_k,
                      .key = w.ffn_key,
                      .value = w.ffn_value,
                      .x = attended_,
                      .scratch = scratch_});
  backend_->DraftHead({.rows = rows.drafts,
                       .width = w.config.width,
                       .x = attended_,
                       .lo_weight = w.lo.weight,
                       .lo_bias = w.lo.bias,
                       .head = head_,
                       .head_rows = head_rows_,
                       .draft_vocab = w.draft_vocab,
                       .o = o_,
                       .logits = logits_,
                       .tokens = drafts_.Sub((k - 1) * static_cast<size_t>(options_.max_lanes),
                                             options_.max_lanes)});
}

}  // namespace tandem
