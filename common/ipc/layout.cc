#include "common/ipc/layout.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ipc/messages.h"
#include "common/ipc/word.h"

namespace tandem::ipc {
namespace {

constexpr uint64_t kHeaderBytes = 4096;
// More than any machine has: sums of a few areas below it cannot overflow 64 bits.
constexpr uint64_t kMaxBytes = uint64_t{1} << 46;

constexpr const char* kNames[Layout::kOffsets] = {
    "words",        "steps",   "lanes",         "tokens", "drafts",
    "device words", "certain", "device drafts", "times",  "features"};

struct Area {
  uint64_t bytes = 0;
  uint64_t alignment = 64;
};

absl::StatusOr<uint64_t> Product(uint64_t a, uint64_t b, const char* what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > kMaxBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("step block: area `", what, "` does not fit into memory"));
  }
  return product;
}

absl::StatusOr<Area> AreaOf(Layout::Offset offset, const LayoutSizes& sizes) {
  Area area;
  uint64_t count = kRing;
  uint64_t stride = 0;
  switch (offset) {
    case Layout::kWords:
      return Area{.bytes = 2 * kWordsPerEpoch * sizeof(Word), .alignment = alignof(Word)};
    case Layout::kSteps:
      stride = sizeof(StepRecord);
      break;
    case Layout::kLanes:
      stride = static_cast<uint64_t>(sizes.max_lanes) * sizeof(LaneRecord);
      break;
    case Layout::kTokens:
      stride = static_cast<uint64_t>(sizes.max_rows) * sizeof(int32_t);
      break;
    case Layout::kDrafts:
      stride = static_cast<uint64_t>(sizes.max_lanes) * sizeof(DraftRecord);
      break;
    case Layout::kDeviceWords:
      return Area{.bytes = 2 * kDeviceWordsPerEpoch * sizeof(DeviceWord),
                  .alignment = alignof(DeviceWord)};
    case Layout::kCertain:
      stride = static_cast<uint64_t>(sizes.max_lanes) * sizeof(CertainRecord);
      break;
    case Layout::kDeviceDrafts:
      stride = static_cast<uint64_t>(sizes.max_lanes) * sizeof(DraftRecord);
      break;
    case Layout::kTimes:
      stride = sizeof(RoundTimes);
      break;
    case Layout::kFeatures:
      stride = 3 * sizeof(float) * static_cast<uint64_t>(sizes.width);
      count = kRing * static_cast<uint64_t>(sizes.max_rows);
      break;
    case Layout::kOffsets:
      break;
  }
  ASSIGN_OR_RETURN(area.bytes, Product(count, stride, kNames[offset]));
  return area;
}

absl::Status CheckSizes(const LayoutSizes& sizes) {
  const struct {
    const char* name;
    int32_t value;
  } entries[] = {{"slots", sizes.slots},
                 {"max_lanes", sizes.max_lanes},
                 {"max_rows", sizes.max_rows},
                 {"width", sizes.width},
                 {"vocabulary size", sizes.vocab}};
  for (const auto& entry : entries) {
    if (entry.value > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("step block: ", entry.name, " is ", entry.value, ", must be positive"));
  }
  return absl::OkStatus();
}

bool InFeatures(int offset) { return offset >= Layout::kDeviceWords; }

uint64_t MemoryBytes(const Layout& layout, int offset) {
  return InFeatures(offset) ? layout.feature_bytes : layout.control_bytes;
}

absl::Status CheckArea(const Layout& layout, int offset, const Area& area) {
  const uint64_t start = layout.offsets[offset];
  const uint64_t memory = MemoryBytes(layout, offset);
  if (start % area.alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("step block: offset ", start, " of `",
                                                   kNames[offset], "` is not a multiple of ",
                                                   area.alignment));
  }
  if (start < kHeaderBytes || memory > kMaxBytes || start > memory || area.bytes > memory - start) {
    return absl::InvalidArgumentError(
        absl::StrCat("step block: `", kNames[offset], "` at ", start, " with ", area.bytes,
                     " bytes does not lie behind the header and inside ", memory, " bytes"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Layout> ComputeLayout(const LayoutSizes& sizes) {
  RETURN_IF_ERROR(CheckSizes(sizes));
  Layout layout;
  layout.sizes = sizes;
  layout.control_bytes = kHeaderBytes;
  layout.feature_bytes = kHeaderBytes;
  for (int i = 0; i < Layout::kOffsets; ++i) {
    ASSIGN_OR_RETURN(const Area area, AreaOf(static_cast<Layout::Offset>(i), sizes));
    uint64_t& end = InFeatures(i) ? layout.feature_bytes : layout.control_bytes;
    layout.offsets[i] = (end + area.alignment - 1) / area.alignment * area.alignment;
    end = layout.offsets[i] + area.bytes;
  }
  RETURN_IF_ERROR(CheckLayout(layout));
  return layout;
}

absl::Status CheckLayout(const Layout& layout) {
  RETURN_IF_ERROR(CheckSizes(layout.sizes));
  struct Range {
    uint64_t start = 0;
    uint64_t end = 0;
    int offset = 0;
    // The control region's before those of the feature memory.
    auto Key() const { return std::make_pair(InFeatures(offset), start); }
  };
  Range ranges[Layout::kOffsets];
  for (int i = 0; i < Layout::kOffsets; ++i) {
    ASSIGN_OR_RETURN(const Area area, AreaOf(static_cast<Layout::Offset>(i), layout.sizes));
    RETURN_IF_ERROR(CheckArea(layout, i, area));
    ranges[i] = {.start = layout.offsets[i], .end = layout.offsets[i] + area.bytes, .offset = i};
  }
  std::sort(std::begin(ranges), std::end(ranges),
            [](const Range& a, const Range& b) { return a.Key() < b.Key(); });
  for (int i = 1; i < Layout::kOffsets; ++i) {
    if (InFeatures(ranges[i].offset) != InFeatures(ranges[i - 1].offset)) continue;
    if (ranges[i].start >= ranges[i - 1].end) continue;
    return absl::InvalidArgumentError(absl::StrCat("step block: `", kNames[ranges[i].offset],
                                                   "` overlaps `", kNames[ranges[i - 1].offset],
                                                   "`"));
  }
  return absl::OkStatus();
}

}  // namespace tandem::ipc
