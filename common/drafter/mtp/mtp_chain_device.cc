#include <vector>

#include "common/base/check.h"
#include "common/drafter/mtp/mtp_chain.h"
#include "kernels/draft_exchange/draft_exchange.h"

namespace tandem {
namespace {

std::vector<DraftResolveLane> ResolveLanes(absl::Span<const MtpFeed> feeds) {
  std::vector<DraftResolveLane> lanes;
  int32_t row = 0;
  auto second = static_cast<int32_t>(feeds.size());
  for (const MtpFeed& feed : feeds) {
    lanes.push_back({.record = feed.record,
                     .slot = feed.slot,
                     .generation = feed.generation,
                     .row = row,
                     .count = feed.count,
                     .drafts = feed.provisional,
                     .chooses = feed.chooses,
                     .second = feed.rows() > 1 ? second++ : -1,
                     .wanted = feed.wanted,
                     .cold = feed.cold,
                     .position = feed.position});
    row += feed.rows();
  }
  return lanes;
}

}  // namespace

DraftResolveArgs MtpChain::Resolve(const DeviceRound& round, size_t lanes,
                                   const MtpInputs& inputs) {
  DraftResolveArgs args = {.epoch = round.epoch,
                           .step = round.step,
                           .vocab = options_.vocab,
                           .width = weights_.config.width,
                           .records = round.certain,
                           .lanes = lanes_.Sub(0, lanes),
                           .shifts = slot_z_.data,
                           .no_z = no_z_.data,
                           .unused_z = unused_z_.data,
                           .tokens = inputs.tokens.device,
                           .query_rows = inputs.query_rows.device,
                           .z = inputs.z.device,
                           .z_prev = inputs.z_prev.device,
                           .fed = fed_.Sub(0, lanes)};
  for (int k = 2; k <= kMaxDrafts; ++k) args.draft_positions[k] = inputs.draft_positions[k].device;
  return args;
}

void MtpChain::Enqueue(const DeviceRound& round, absl::Span<const MtpFeed> feeds, bool first,
                       bool last) {
  CopyFed();
  const MtpCounts counts = CountsOf(feeds);
  const MtpInputs inputs = Upload(feeds, counts);
  const std::vector<DraftResolveLane> lanes = ResolveLanes(feeds);
  backend_->CopyIn(lanes_.data, lanes.data(), lanes.size() * sizeof(DraftResolveLane));
  DraftResolveArgs resolve = Resolve(round, lanes.size(), inputs);
  resolve.times = first ? round.times : nullptr;
  backend_->DraftResolve(resolve);
  RunOps(counts, inputs);
  backend_->DraftAnswer({.epoch = round.epoch,
                         .step = round.step,
                         .lanes = resolve.lanes,
                         .fed = resolve.fed,
                         .drafts = drafts_,
                         .stride = options_.max_lanes,
                         .records = round.answers,
                         .times = last ? round.times : nullptr});
  for (const MtpFeed& feed : feeds) pending_.push_back(feed.fed);
  CHECK_LE(pending_.size(), host_fed_.size()) << "slots are not distinct";
}

// Not in Enqueue: the answers leave first.
void MtpChain::CopyFed() {
  backend_->CopyOut(host_fed_.data() + copied_, fed_.data,
                    (pending_.size() - copied_) * sizeof(int32_t));
  copied_ = pending_.size();
}

void MtpChain::Finish() {
  CopyFed();
  backend_->Wait();
  for (size_t i = 0; i < pending_.size(); ++i) *pending_[i] = host_fed_[i];
  pending_.clear();
  copied_ = 0;
}

}  // namespace tandem
