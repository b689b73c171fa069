#include "common/ipc/layout.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "common/ipc/messages.h"

namespace tandem::ipc {
namespace {

bool InFeatures(int offset) { return offset >= Layout::kDeviceWords; }

constexpr LayoutSizes kSizes = {
    .slots = 5, .max_lanes = 3, .max_rows = 7, .width = 10, .vocab = 100};

Layout Good() { return *ComputeLayout(kSizes); }

TEST(LayoutTest, AreasFollowFromTheSizes) {
  const Layout layout = Good();
  // 4096 header, 8 words of 128, 8 step records of 64, 8 x 3 lane records of 64, 8 x 7 tokens of 4,
  // 8 x 3 draft records of 64.
  EXPECT_EQ(layout.offsets[Layout::kWords], 4096u);
  EXPECT_EQ(layout.offsets[Layout::kSteps], 4096u + 1024);
  EXPECT_EQ(layout.offsets[Layout::kLanes], 4096u + 1024 + 512);
  EXPECT_EQ(layout.offsets[Layout::kTokens], 4096u + 1024 + 512 + 1536);
  EXPECT_EQ(layout.offsets[Layout::kDrafts], 4096u + 1024 + 512 + 1536 + 256);
  EXPECT_EQ(layout.control_bytes, 4096u + 1024 + 512 + 1536 + 256 + 1536);
  // 4096 header, 10 words of 128, 8 x 3 records of 64 each way, 8 times of 64.
  EXPECT_EQ(layout.offsets[Layout::kDeviceWords], 4096u);
  EXPECT_EQ(layout.offsets[Layout::kCertain], 4096u + 1280);
  EXPECT_EQ(layout.offsets[Layout::kDeviceDrafts], 4096u + 1280 + 1536);
  EXPECT_EQ(layout.offsets[Layout::kTimes], 4096u + 1280 + 1536 + 1536);
  EXPECT_EQ(layout.offsets[Layout::kFeatures], 4096u + 1280 + 1536 + 1536 + 512);
  EXPECT_EQ(layout.feature_bytes, 4096u + 1280 + 1536 + 1536 + 512 + 8 * 7 * 3 * 10 * 4);
}

TEST(LayoutTest, SizesThatAreNotPositiveAreRefused) {
  for (int field = 0; field < 5; ++field) {
    for (const int32_t bad : {0, -1, std::numeric_limits<int32_t>::min()}) {
      LayoutSizes sizes = kSizes;
      int32_t* fields[] = {&sizes.slots, &sizes.max_lanes, &sizes.max_rows, &sizes.width,
                           &sizes.vocab};
      *fields[field] = bad;
      EXPECT_EQ(ComputeLayout(sizes).status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(LayoutTest, SizesThatOverflowAreRefused) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  LayoutSizes sizes = kSizes;
  sizes.max_rows = kMax;
  sizes.width = kMax;
  EXPECT_EQ(ComputeLayout(sizes).status().code(), absl::StatusCode::kInvalidArgument);
  Layout layout = Good();
  layout.sizes = sizes;
  EXPECT_EQ(CheckLayout(layout).code(), absl::StatusCode::kInvalidArgument);
}

TEST(LayoutTest, OffsetsOutsideTheMemoryAreRefused) {
  for (int i = 0; i < Layout::kOffsets; ++i) {
    const uint64_t memory = InFeatures(i) ? Good().feature_bytes : Good().control_bytes;
    for (const uint64_t bad : {uint64_t{0}, uint64_t{64}, memory, memory + 128, uint64_t{1} << 60,
                               ~uint64_t{127}, ~uint64_t{0}}) {
      Layout layout = Good();
      layout.offsets[i] = bad;
      EXPECT_FALSE(CheckLayout(layout).ok()) << "offset " << i << " at " << bad;
    }
  }
}

TEST(LayoutTest, MisalignedOffsetsAreRefused) {
  for (int i = 0; i < Layout::kOffsets; ++i) {
    Layout layout = Good();
    layout.control_bytes += 4096;
    layout.feature_bytes += 4096;
    layout.offsets[i] += 4;
    EXPECT_FALSE(CheckLayout(layout).ok()) << i;
  }
}

TEST(LayoutTest, OverlapsAreRefused) {
  for (int i = 0; i < Layout::kOffsets; ++i) {
    for (int j = 0; j < Layout::kOffsets; ++j) {
      if (i == j || InFeatures(i) != InFeatures(j)) continue;
      Layout layout = Good();
      layout.control_bytes += 65536;
      layout.feature_bytes += 65536;
      layout.offsets[i] = layout.offsets[j];
      EXPECT_FALSE(CheckLayout(layout).ok()) << i << " on " << j;
    }
  }
}

TEST(LayoutTest, MemoryThatIsTooSmallIsRefused) {
  Layout layout = Good();
  --layout.control_bytes;
  EXPECT_FALSE(CheckLayout(layout).ok());
  layout = Good();
  --layout.feature_bytes;
  EXPECT_FALSE(CheckLayout(layout).ok());
}

// What the layout promises, in arithmetic that cannot overflow.
bool Fits(const Layout& layout) {
  using Wide = unsigned __int128;
  const LayoutSizes& s = layout.sizes;
  for (const int32_t size : {s.slots, s.max_lanes, s.max_rows, s.width, s.vocab}) {
    if (size <= 0) return false;
  }
  const Wide bytes[Layout::kOffsets] = {2 * 4 * 128,
                                        8 * 64,
                                        Wide(8) * s.max_lanes * 64,
                                        Wide(8) * s.max_rows * 4,
                                        Wide(8) * s.max_lanes * 64,
                                        2 * 5 * 128,
                                        Wide(8) * s.max_lanes * 64,
                                        Wide(8) * s.max_lanes * 64,
                                        8 * 64,
                                        Wide(8) * s.max_rows * 3 * s.width * 4};
  for (int i = 0; i < Layout::kOffsets; ++i) {
    const Wide end = Wide(layout.offsets[i]) + bytes[i];
    const Wide memory = InFeatures(i) ? layout.feature_bytes : layout.control_bytes;
    if (layout.offsets[i] < 4096 || end > memory) return false;
    for (int j = 0; j < i; ++j) {
      if (InFeatures(i) != InFeatures(j)) continue;
      const bool apart =
          end <= layout.offsets[j] || layout.offsets[j] + bytes[j] <= layout.offsets[i];
      if (!apart) return false;
    }
  }
  return true;
}

TEST(LayoutTest, MutatedLayoutsAreAcceptedOnlyWhenEverythingFits) {
  std::mt19937_64 random(7);
  int accepted = 0;
  for (int round = 0; round < 50'000; ++round) {
    Layout layout = Good();
    uint64_t* wide[] = {&layout.control_bytes, &layout.feature_bytes, &layout.offsets[0],
                        &layout.offsets[1],    &layout.offsets[2],    &layout.offsets[3],
                        &layout.offsets[4],    &layout.offsets[5],    &layout.offsets[6],
                        &layout.offsets[7],    &layout.offsets[8],    &layout.offsets[9]};
    int32_t* narrow[] = {&layout.sizes.slots, &layout.sizes.max_lanes, &layout.sizes.max_rows,
                         &layout.sizes.width, &layout.sizes.vocab};
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits; ++i) {
      const uint64_t value = random() >> (random() % 64);
      if (random() % 2 == 0) {
        *wide[random() % 12] = random() % 4 == 0 ? value : value / 128 * 128;
      } else {
        *narrow[random() % 5] = static_cast<int32_t>(value);
      }
    }
    if (!CheckLayout(layout).ok()) continue;
    ++accepted;
    EXPECT_TRUE(Fits(layout));
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace tandem::ipc
