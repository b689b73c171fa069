#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/draft_records.h"
#include "kernels/lanes.h"

namespace tandem::ipc {

// What lies in the shared memory of an attachment. Plain data: both sides read it as bytes that a
// broken peer may have written, and check every field of a private copy.

inline constexpr uint64_t kMagic = 0x316d65646e61746bull;
inline constexpr uint32_t kLayoutVersion = 2;
// Rounds that stay readable: a round lies in copy step mod kRing.
inline constexpr int kRing = 8;
// Exchanges that measure the hand-off when a drafter attaches.
inline constexpr int kProbeRounds = 100;

// First bytes of the control region.
struct BlockHeader {
  uint64_t magic = 0;
  uint32_t layout_version = 0;
  uint32_t unused = 0;
  uint64_t epoch = 0;
  uint64_t nonce = 0;   // by the verifier, new for every attachment
  uint64_t answer = 0;  // by the drafter, see KeyedAnswer
};

// First bytes of the feature memory: proves that the right memory was mapped.
struct FeatureHeader {
  uint64_t magic = 0;
  uint64_t nonce = 0;  // by the verifier, fixed for the life of the block
};

// One round as the verifier published it. `step` is written last and zeroed before a copy is
// reused.
struct StepRecord {
  uint64_t step = 0;  // from 1
  uint64_t epoch = 0;
  int32_t lanes = 0;
  int32_t unused[11] = {};
};

enum LaneFlags : uint32_t {
  kLaneCold = 1,     // forget what is known of the slot
  kLaneChooses = 2,  // only the device knows the token after the last certain position
};

// A lane of a round; rows first_row .. first_row + count - 1 of the copy's features and next tokens
// are its certain positions. In device mode, where a round is written before its pass has run,
// `drafts` rows follow them, of which the device knows how many became certain.
struct LaneRecord {
  int64_t position = 0;
  int32_t slot = 0;
  uint32_t generation = 0;
  int32_t first_row = 0;
  int32_t count = 0;
  int32_t wanted = 0;
  uint32_t flags = 0;
  int32_t drafts = 0;  // device mode only; more than 0 only where count is 1
  int32_t unused[7] = {};
};

// Records of a round, whichever memory they lie in.
using tandem::CertainRecord;
using tandem::DraftRecord;
using tandem::RoundTimes;

// A stream word (Backend::WaitWord), alone in a pair of cache lines of the feature memory.
struct alignas(128) DeviceWord {
  uint32_t value = 0;
};

static_assert(sizeof(BlockHeader) == 40 && std::is_trivially_copyable_v<BlockHeader>);
static_assert(sizeof(FeatureHeader) == 16 && std::is_trivially_copyable_v<FeatureHeader>);
static_assert(sizeof(StepRecord) == 64 && std::is_trivially_copyable_v<StepRecord>);
static_assert(sizeof(LaneRecord) == 64 && std::is_trivially_copyable_v<LaneRecord>);
static_assert(sizeof(DeviceWord) == 128);

// What a drafter must answer to prove that it reads both memories and writes one of them.
uint64_t KeyedAnswer(uint64_t epoch, uint64_t nonce, uint64_t feature_nonce);

}  // namespace tandem::ipc
