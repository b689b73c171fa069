#include "common/drafter/mtp/mtp.h"

#include <algorithm>
#include <utility>
#include <vector>

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

  bool Valid(const DraftLane& lane) const;
  MtpFeed Admit(const DraftLane& lane, Drafts& drafts);
  void RunAll(std::vector<MtpFeed> feeds);

  Options options;
  int width = 0;
  int window = 0;
  int max_drafts = 0;
  uint64_t round = 0;
  std::vector<SlotState> states;  // [S]
  std::unique_ptr<MtpChain> chain;
};

bool Mtp::Impl::Valid(const DraftLane& lane) const {
  if (lane.slot < 0 || lane.slot >= options.slots || lane.count < 1 || lane.wanted < 0)
    return false;
  if (lane.position < 0 || lane.position > kMaxPosition - lane.count) return false;
  if (lane.features == nullptr || states[lane.slot].round == round) return false;
  return std::all_of(lane.next_tokens, lane.next_tokens + lane.count,
                     [this](int32_t token) { return token >= 0 && token < options.vocab; });
}

// Brings the slot's state up to the lane. Only window + 1 positions matter to what follows: the
// keys of the last position and one older key for the shift that it takes from the one before it.
MtpFeed Mtp::Impl::Admit(const DraftLane& lane, Drafts& drafts) {
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
  drafts.count = std::min(lane.wanted, max_drafts);
  return {.slot = lane.slot,
          .cold = cold,
          .count = lane.count - skipped,
          .wanted = drafts.count,
          .position = position,
          .first = state.first,
          .features = lane.features + static_cast<size_t>(skipped) * 3 * width,
          .next_tokens = lane.next_tokens + skipped,
          .drafts = drafts.tokens};
}

// In groups that fit the chain's buffers; rows do not influence each other, so grouping changes
// nothing.
void Mtp::Impl::RunAll(std::vector<MtpFeed> feeds) {
  std::stable_sort(feeds.begin(), feeds.end(),
                   [](const MtpFeed& a, const MtpFeed& b) { return a.wanted > b.wanted; });
  size_t begin = 0;
  int rows = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    const bool full = i - begin == static_cast<size_t>(options.max_lanes) ||
                      rows + feeds[i].count > options.max_rows;
    if (full) {
      chain->Run(absl::MakeConstSpan(feeds).subspan(begin, i - begin));
      begin = i;
      rows = 0;
    }
    rows += feeds[i].count;
  }
  if (begin < feeds.size()) chain->Run(absl::MakeConstSpan(feeds).subspan(begin));
}

absl::StatusOr<std::unique_ptr<Mtp>> Mtp::Create(Backend* backend, const MtpFile& file,
                                                 const Options& options) {
  ASSIGN_OR_RETURN(MtpWeights weights, MtpWeights::Load(backend, file));
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
    if (impl_->Valid(lanes[i])) feeds.push_back(impl_->Admit(lanes[i], results[i]));
  }
  impl_->RunAll(std::move(feeds));
}

}  // namespace tandem
