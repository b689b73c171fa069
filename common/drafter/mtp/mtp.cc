#include "common/drafter/mtp/mtp.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_chain.h"
#include "common/drafter/mtp/mtp_weights.h"

namespace tandem {
namespace {

// Far above any text, far below overflow.
constexpr int64_t kMaxPosition = int64_t{1} << 40;

}  // namespace

struct Mtp::Impl {
  // What a slot's ring holds.
  struct SlotState {
    bool live = false;
    uint32_t generation = 0;
    int64_t next = 0;    // position that continues it
    int64_t first = 0;   // lowest position with a key
    uint64_t round = 0;  // last round that brought a lane
  };

  // A lane of the round that Finish ends.
  struct Pending {
    int32_t slot = 0;
    int32_t skipped = 0;
    int64_t position = 0;
    int32_t fed = 0;
  };

  bool Valid(const DraftLane& lane, int known_tokens) const;
  MtpFeed Admit(const DraftLane& lane);
  void RunAll(std::vector<MtpFeed> feeds, absl::FunctionRef<void(absl::Span<const MtpFeed>)> run);

  Options options;
  int width = 0;
  int window = 0;
  int max_drafts = 0;
  uint64_t round = 0;
  std::vector<SlotState> states;  // [S]
  std::vector<Pending> pending;   // by lane
  std::unique_ptr<MtpChain> chain;
};

bool Mtp::Impl::Valid(const DraftLane& lane, int known_tokens) const {
  if (lane.slot < 0 || lane.slot >= options.slots || lane.count < 1 || lane.wanted < 0)
    return false;
  if (lane.position < 0 || lane.position > kMaxPosition - lane.count) return false;
  if (lane.features == nullptr || states[lane.slot].round == round) return false;
  return std::all_of(lane.next_tokens, lane.next_tokens + known_tokens,
                     [this](int32_t token) { return token >= 0 && token < options.vocab; });
}

// Brings the slot's state up to the lane. Only window + 1 positions matter to what follows: the
// keys of the last position and one older key for the shift that it takes from the one before it.
MtpFeed Mtp::Impl::Admit(const DraftLane& lane) {
  SlotState& state = states[lane.slot];
  const bool cold =
      !state.live || state.generation != lane.generation || state.next != lane.position;
  const int skipped = std::max(0, lane.count - (window + 1));
  const int64_t position = lane.position + skipped;
  state = {.live = true,
           .generation = lane.generation,
           .next = lane.position + lane.count,
           .first = cold || skipped > 0 ? position : state.first,
           .round = round};
  return {.slot = lane.slot,
          .cold = cold,
          .count = lane.count - skipped,
          .wanted = std::min(lane.wanted, max_drafts),
          .position = position,
          .first = state.first,
          .features = lane.features + static_cast<size_t>(skipped) * 3 * width,
          .next_tokens = lane.next_tokens + skipped};
}

// In groups that fit the chain's buffers; rows do not influence each other, so grouping changes
// nothing.
void Mtp::Impl::RunAll(std::vector<MtpFeed> feeds,
                       absl::FunctionRef<void(absl::Span<const MtpFeed>)> run) {
  std::stable_sort(feeds.begin(), feeds.end(),
                   [](const MtpFeed& a, const MtpFeed& b) { return a.wanted > b.wanted; });
  size_t begin = 0;
  int rows = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const bool full = i - begin == static_cast<size_t>(options.max_lanes) ||
                      rows + feeds[i].rows() > options.max_rows;
    if (full) {
      run(absl::MakeConstSpan(feeds).subspan(begin, i - begin));
      begin = i;
      rows = 0;
    }
    rows += feeds[i].rows();
  }
  if (begin < feeds.size()) run(absl::MakeConstSpan(feeds).subspan(begin));
}

absl::StatusOr<std::unique_ptr<Mtp>> Mtp::Create(Backend* backend, const MtpFile& file,
                                                 const Options& options) {
  ASSIGN_OR_RETURN(MtpWeights weights, MtpWeights::Load(backend, file, options.weights));
  return Create(backend, std::move(weights), options);
}

absl::StatusOr<std::unique_ptr<Mtp>> Mtp::Create(Backend* backend, MtpWeights weights,
                                                 const Options& options) {
  CHECK(options.embedding != nullptr && options.head.data != nullptr);
  CHECK_EQ(options.head.rows, options.vocab);
  CHECK_EQ(options.head.cols, weights.config.width);
  CHECK(options.slots > 0 && options.max_lanes > 0);
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->width = weights.config.width;
  impl->window = weights.config.window;
  impl->max_drafts = weights.config.max_drafts();
  impl->options.max_rows = std::max(options.max_rows, impl->window + 1);
  impl->states.resize(options.slots);
  ASSIGN_OR_RETURN(impl->chain, MtpChain::Create(backend, std::move(weights), impl->options));
  return std::unique_ptr<Mtp>(new Mtp(std::move(impl)));
}

Mtp::Mtp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Mtp::~Mtp() = default;

int Mtp::max_drafts() const { return impl_->max_drafts; }
int Mtp::slots() const { return impl_->options.slots; }

void Mtp::Draft(absl::Span<const DraftLane> lanes, absl::Span<Drafts> results) {
  CHECK_EQ(lanes.size(), results.size());
  ++impl_->round;
  std::vector<MtpFeed> feeds;
  for (size_t i = 0; i < lanes.size(); ++i) {
    results[i].count = 0;
    if (!impl_->Valid(lanes[i], lanes[i].count)) continue;
    feeds.push_back(impl_->Admit(lanes[i]));
    feeds.back().drafts = results[i].tokens;
    results[i].count = feeds.back().wanted;
  }
  impl_->RunAll(std::move(feeds),
                [this](absl::Span<const MtpFeed> group) { impl_->chain->Run(group); });
}

void Mtp::Enqueue(const DeviceRound& round, absl::Span<const DeviceDraftLane> lanes) {
  ++impl_->round;
  impl_->pending.assign(lanes.size(), {.slot = -1});
  std::vector<MtpFeed> feeds;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const DeviceDraftLane& lane = lanes[i];
    const bool possible =
        lane.drafts >= 0 && lane.drafts <= (lane.known.count == 1 ? kMaxDrafts : 0);
    if (!possible || !impl_->Valid(lane.known, lane.known.count - lane.chooses)) continue;
    MtpFeed feed = impl_->Admit(lane.known);
    Impl::Pending& pending = impl_->pending[i];
    pending = {.slot = feed.slot,
               .skipped = lane.known.count - feed.count,
               .position = lane.known.position};
    feed.provisional = lane.drafts;
    feed.chooses = lane.chooses;
    feed.record = lane.record;
    feed.generation = lane.generation;
    feed.fed = &pending.fed;
    feeds.push_back(feed);
  }
  size_t left = feeds.size();
  bool first = true;
  impl_->RunAll(std::move(feeds), [&](absl::Span<const MtpFeed> group) {
    left -= group.size();
    impl_->chain->Enqueue(round, group, first, left == 0);
    first = false;
  });
}

void Mtp::Finish(absl::Span<int32_t> fed) {
  CHECK_EQ(fed.size(), impl_->pending.size());
  impl_->chain->Finish();
  for (size_t i = 0; i < fed.size(); ++i) {
    const Impl::Pending& pending = impl_->pending[i];
    fed[i] = 0;
    if (pending.slot < 0) continue;
    Impl::SlotState& state = impl_->states[static_cast<size_t>(pending.slot)];
    state.live = pending.fed > 0;
    if (pending.fed > 0) fed[i] = pending.skipped + pending.fed;
    state.next = pending.position + fed[i];
  }
}

}  // namespace tandem
