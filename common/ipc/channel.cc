#include "common/ipc/channel.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "common/base/check.h"

namespace tandem::ipc {
namespace {

// A record may be overwritten while the peer copies it, so everything crosses in words: stored with
// release and loaded with acquire order, whoever sees a word of a later round also sees, in a load
// behind it, that the stamp of the earlier one is gone.
template <typename T>
T Load(const T& shared) {
  return std::atomic_ref<T>(const_cast<T&>(shared)).load(std::memory_order_acquire);
}

template <typename T>
void Store(T& shared, T value) {
  std::atomic_ref<T>(shared).store(value, std::memory_order_release);
}

template <typename T>
constexpr size_t Words(size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) >= 4 && sizeof(T) % 4 == 0);
  return count * sizeof(T) / 4;
}

template <typename T>
void CopyOut(const T* shared, size_t count, T* to) {
  const auto* words = reinterpret_cast<const uint32_t*>(shared);
  for (size_t i = 0; i < Words<T>(count); ++i) {
    const uint32_t word = Load(words[i]);
    std::memcpy(reinterpret_cast<char*>(to) + 4 * i, &word, 4);
  }
}

template <typename T>
void CopyIn(absl::Span<const T> from, T* shared) {
  auto* words = reinterpret_cast<uint32_t*>(shared);
  for (size_t i = 0; i < Words<T>(from.size()); ++i) {
    uint32_t word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(from.data()) + 4 * i, 4);
    Store(words[i], word);
  }
}

}  // namespace

BlockView::BlockView(const Layout& layout, void* control, void* features, uint64_t epoch)
    : layout_(layout),
      control_(static_cast<char*>(control)),
      features_(static_cast<char*>(features)),
      epoch_(epoch) {}

char* BlockView::At(Layout::Offset offset, uint64_t index, uint64_t stride) const {
  char* base = offset >= Layout::kDeviceWords ? features_ : control_;
  return base + layout_.offsets[offset] + index * stride;
}

BlockHeader* BlockView::header() const { return reinterpret_cast<BlockHeader*>(control_); }

Word& BlockView::word(WordIndex index) const {
  const uint64_t set = (epoch_ % 2) * kWordsPerEpoch;
  return *reinterpret_cast<Word*>(At(Layout::kWords, set + index, sizeof(Word)));
}

StepRecord* BlockView::step(uint64_t step) const { return Copy<StepRecord>(Layout::kSteps, step); }

LaneRecord* BlockView::lanes(uint64_t step) const {
  return Copy<LaneRecord>(Layout::kLanes, step, layout_.sizes.max_lanes);
}

int32_t* BlockView::tokens(uint64_t step) const {
  return Copy<int32_t>(Layout::kTokens, step, layout_.sizes.max_rows);
}

DraftRecord* BlockView::drafts(uint64_t step) const {
  return Copy<DraftRecord>(Layout::kDrafts, step, layout_.sizes.max_lanes);
}

float* BlockView::features(uint64_t step) const {
  const uint64_t stride = 3 * sizeof(float) * static_cast<uint64_t>(layout_.sizes.width) *
                          static_cast<uint64_t>(layout_.sizes.max_rows);
  return reinterpret_cast<float*>(At(Layout::kFeatures, step % kRing, stride));
}

uint32_t* BlockView::device_word(DeviceWordIndex index) const {
  const uint64_t set = (epoch_ % 2) * kDeviceWordsPerEpoch;
  return reinterpret_cast<uint32_t*>(At(Layout::kDeviceWords, set + index, sizeof(DeviceWord)));
}

CertainRecord* BlockView::certain(uint64_t step) const {
  return Copy<CertainRecord>(Layout::kCertain, step, layout_.sizes.max_lanes);
}

DraftRecord* BlockView::device_drafts(uint64_t step) const {
  return Copy<DraftRecord>(Layout::kDeviceDrafts, step, layout_.sizes.max_lanes);
}

RoundTimes* BlockView::times(uint64_t step) const { return Copy<RoundTimes>(Layout::kTimes, step); }

void VerifierChannel::Start(uint64_t nonce) const {
  for (int i = 0; i < kWordsPerEpoch; ++i) {
    view_.word(static_cast<WordIndex>(i)).value.store(0, std::memory_order_release);
  }
  for (uint64_t copy = 0; copy < kRing; ++copy) Store(view_.step(copy)->step, uint64_t{0});
  *view_.header() = {.magic = kMagic,
                     .layout_version = kLayoutVersion,
                     .unused = 0,
                     .epoch = view_.epoch(),
                     .nonce = nonce,
                     .answer = 0};
}

void VerifierChannel::Begin(uint64_t step) const { Store(view_.step(step)->step, uint64_t{0}); }

void VerifierChannel::WriteLanes(uint64_t step, absl::Span<const LaneRecord> lanes) const {
  CHECK_LE(lanes.size(), static_cast<size_t>(view_.layout().sizes.max_lanes));
  CopyIn(lanes, view_.lanes(step));
}

void VerifierChannel::WriteTokens(uint64_t step, int first_row,
                                  absl::Span<const int32_t> tokens) const {
  const auto rows = static_cast<size_t>(view_.layout().sizes.max_rows);
  CHECK(first_row >= 0 && first_row + tokens.size() <= rows)
      << "rows " << first_row << " + " << tokens.size() << " of a pass of " << rows;
  CopyIn(tokens, view_.tokens(step) + first_row);
}

void VerifierChannel::Publish(uint64_t step, int lanes) const {
  CHECK_LE(lanes, view_.layout().sizes.max_lanes);
  StepRecord* record = view_.step(step);
  Store(record->epoch, view_.epoch());
  Store(record->lanes, lanes);
  Store(record->step, step);
  ipc::Publish(view_.word(kVerified), step);
}

uint64_t VerifierChannel::drafted() const {
  return view_.word(kDrafted).value.load(std::memory_order_acquire);
}

WaitResult VerifierChannel::WaitDrafted(uint64_t step, Clock::time_point deadline,
                                        absl::FunctionRef<bool()> stopped) const {
  return WaitAtLeast(view_.word(kDrafted), step, deadline, stopped);
}

void VerifierChannel::TakeDrafts(uint64_t step, absl::Span<DraftRecord> drafts) const {
  CHECK_LE(drafts.size(), static_cast<size_t>(view_.layout().sizes.max_lanes));
  CopyOut(view_.drafts(step), drafts.size(), drafts.data());
}

WaitResult VerifierChannel::Ping(uint64_t i, Clock::time_point deadline,
                                 absl::FunctionRef<bool()> stopped) const {
  ipc::Publish(view_.word(kPing), i);
  return WaitAtLeast(view_.word(kPong), i, deadline, stopped);
}

uint64_t DrafterChannel::verified() const {
  return view_.word(kVerified).value.load(std::memory_order_acquire);
}

WaitResult DrafterChannel::WaitVerified(uint64_t step, Clock::time_point deadline,
                                        absl::FunctionRef<bool()> stopped) const {
  return WaitAtLeast(view_.word(kVerified), step, deadline, stopped);
}

bool DrafterChannel::Read(uint64_t step, Round& round) const {
  const LayoutSizes& sizes = view_.layout().sizes;
  const StepRecord& record = *view_.step(step);
  if (Load(record.step) != step) return false;
  const uint64_t epoch = Load(record.epoch);
  const int32_t lanes = Load(record.lanes);
  if (epoch != view_.epoch() || lanes < 0 || lanes > sizes.max_lanes) return false;
  round.lanes.resize(static_cast<size_t>(lanes));
  round.tokens.resize(static_cast<size_t>(sizes.max_rows));
  CopyOut(view_.lanes(step), round.lanes.size(), round.lanes.data());
  CopyOut(view_.tokens(step), round.tokens.size(), round.tokens.data());
  return Load(record.step) == step;
}

bool DrafterChannel::ValidLane(const LaneRecord& lane, const Round& round) const {
  const LayoutSizes& sizes = view_.layout().sizes;
  if (lane.slot < 0 || lane.slot >= sizes.slots || lane.position < 0) return false;
  if (lane.count < 1 || lane.count > sizes.max_rows) return false;
  if (lane.drafts < 0 || lane.drafts > (lane.count == 1 ? kMaxDrafts : 0)) return false;
  if (lane.first_row < 0 || lane.first_row > sizes.max_rows - lane.count - lane.drafts)
    return false;
  if (lane.wanted < 0 || lane.wanted > kMaxDrafts) return false;
  const auto first = round.tokens.begin() + lane.first_row;
  return std::all_of(first, first + lane.count,
                     [&sizes](int32_t token) { return token >= 0 && token < sizes.vocab; });
}

bool DrafterChannel::MayBeOverwritten(uint64_t step) const {
  // The pass that fills the copy again starts as soon as the round before it was published.
  return verified() + 1 >= step + kRing;
}

void DrafterChannel::Publish(uint64_t step, absl::Span<const DraftRecord> drafts) const {
  CHECK_LE(drafts.size(), static_cast<size_t>(view_.layout().sizes.max_lanes));
  CopyIn(drafts, view_.drafts(step));
  ipc::Publish(view_.word(kDrafted), step);
}

void DrafterChannel::Acknowledge(uint64_t step) const { ipc::Publish(view_.word(kDrafted), step); }

WaitResult DrafterChannel::Pong(uint64_t i, Clock::time_point deadline,
                                absl::FunctionRef<bool()> stopped) const {
  const WaitResult result = WaitAtLeast(view_.word(kPing), i, deadline, stopped);
  if (result == WaitResult::kReached) ipc::Publish(view_.word(kPong), i);
  return result;
}

}  // namespace tandem::ipc
