#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tandem::ipc {

// What the sizes of a block follow from.
struct LayoutSizes {
  int32_t slots = 0;      // sequence slots, numbered from 0
  int32_t max_lanes = 0;  // B, lanes of a round
  int32_t max_rows = 0;   // R, rows of a pass
  int32_t width = 0;      // C
  int32_t vocab = 0;      // V
};

// Where things lie, in bytes. The control region (host memory) holds header, words and records; the
// feature memory (memory of the verifier's backend) holds its header and the feature rows.
struct Layout {
  enum Offset {
    // Of the control region:
    kWords,
    kSteps,
    kLanes,
    kTokens,
    kDrafts,
    // Of the feature memory:
    kDeviceWords,
    kCertain,
    kDeviceDrafts,
    kTimes,
    kFeatures,
    kOffsets
  };

  LayoutSizes sizes;
  uint64_t control_bytes = 0;
  uint64_t feature_bytes = 0;
  // kWords:    Word [2 epoch parities, kWordsPerEpoch]
  // kSteps:    StepRecord [kRing]
  // kLanes:    LaneRecord [kRing, B]
  // kTokens:   int32 [kRing, R], the token after each row
  // kDrafts:   DraftRecord [kRing, B]
  // In device mode, in the feature memory:
  // kDeviceWords:  DeviceWord [2 epoch parities, kDeviceWordsPerEpoch]
  // kCertain:      CertainRecord [kRing, B]
  // kDeviceDrafts: DraftRecord [kRing, B]
  // kTimes:        RoundTimes [kRing]
  // In every mode: kFeatures: float [kRing, R, 3C]
  std::array<uint64_t, kOffsets> offsets = {};
};

// Words of one epoch parity. In device mode kVerified says which round is planned and kDrafted
// which one the drafter has acknowledged.
enum WordIndex { kVerified, kDrafted, kPing, kPong, kWordsPerEpoch };
enum DeviceWordIndex {
  kDeviceVerified,
  kDeviceDrafted,
  kDevicePing,
  kDevicePong,
  kDeviceRescue,  // never written by the drafter
  kDeviceWordsPerEpoch
};

// The layout that a verifier offers. INVALID_ARGUMENT, naming the size, where one is not positive
// or the block would not fit into memory.
absl::StatusOr<Layout> ComputeLayout(const LayoutSizes& sizes);

// Whether an offered layout is usable: positive sizes, every area aligned, inside its memory
// without overflow, and no two areas overlapping. INVALID_ARGUMENT names the field.
absl::Status CheckLayout(const Layout& layout);

}  // namespace tandem::ipc
