// Two ends of a channel in one process, so that the thread sanitizer sees both.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/ipc/channel.h"
#include "common/ipc/region.h"

namespace tandem::ipc {
namespace {

constexpr LayoutSizes kSizes = {
    .slots = 4, .max_lanes = 3, .max_rows = 64, .width = 8, .vocab = 1'000'000};
constexpr uint64_t kRounds = 20'000;
constexpr auto kLong = std::chrono::seconds(100);

bool Never() { return false; }

class ChannelThreadsTest : public ::testing::Test {
 protected:
  ChannelThreadsTest()
      : layout_(*ComputeLayout(kSizes)),
        control_(*Region::Create("control", layout_.control_bytes)),
        features_(*Region::Create("features", layout_.feature_bytes)),
        verifier_(View()),
        drafter_(View()) {
    verifier_.Start(0);
  }

  BlockView View() const {
    return BlockView(layout_, control_->data(), features_->data(), /*epoch=*/8);
  }

  // A round in which everything tells its step.
  void Publish(uint64_t step) const {
    verifier_.Begin(step);
    const std::vector<LaneRecord> lanes(3, {.position = static_cast<int64_t>(step), .slot = 1});
    verifier_.WriteLanes(step, lanes);
    const std::vector<int32_t> tokens(64, static_cast<int32_t>(step));
    verifier_.WriteTokens(step, 0, tokens);
    verifier_.Publish(step, 3);
  }

  static bool OfOnePiece(const Round& round, uint64_t step) {
    if (round.lanes.size() != 3 || round.tokens.size() != 64) return false;
    for (const LaneRecord& lane : round.lanes) {
      if (lane.position != static_cast<int64_t>(step)) return false;
    }
    for (const int32_t token : round.tokens) {
      if (token != static_cast<int32_t>(step)) return false;
    }
    return true;
  }

  Layout layout_;
  std::unique_ptr<Region> control_;
  std::unique_ptr<Region> features_;
  VerifierChannel verifier_;
  DrafterChannel drafter_;
};

TEST_F(ChannelThreadsTest, WhatIsReadWhileItIsOverwrittenIsOfOnePiece) {
  std::jthread verifier([this] {
    for (uint64_t step = 1; step <= kRounds; ++step) Publish(step);
  });
  Round round;
  uint64_t read = 0;
  for (uint64_t step = 0; step < kRounds;) {
    // The oldest copy, which the verifier is about to overwrite, and the newest.
    step = drafter_.verified();
    for (const uint64_t wanted : {step < kRing ? 1 : step + 1 - kRing, step}) {
      if (wanted == 0 || !drafter_.Read(wanted, round)) continue;
      ++read;
      ASSERT_TRUE(OfOnePiece(round, wanted)) << wanted;
    }
  }
  EXPECT_GT(read, 0u);
}

TEST_F(ChannelThreadsTest, RoundsAndDraftsAlternate) {
  constexpr uint64_t kExchanges = 2'000;
  std::jthread drafter([this] {
    Round round;
    for (uint64_t step = 1; step <= kExchanges; ++step) {
      if (drafter_.WaitVerified(step, Clock::now() + kLong, Never) != WaitResult::kReached) return;
      const bool good = drafter_.Read(step, round) && OfOnePiece(round, step) &&
                        drafter_.view().features(step)[0] == static_cast<float>(step);
      const DraftRecord record = {.epoch = 8, .step = step, .count = good ? 1 : 0};
      drafter_.Publish(step, {&record, 1});
    }
  });
  for (uint64_t step = 1; step <= kExchanges; ++step) {
    verifier_.view().features(step)[0] = static_cast<float>(step);
    Publish(step);
    ASSERT_EQ(verifier_.WaitDrafted(step, Clock::now() + kLong, Never), WaitResult::kReached);
    DraftRecord record;
    verifier_.TakeDrafts(step, {&record, 1});
    EXPECT_EQ(record.step, step);
    EXPECT_EQ(record.count, 1) << "step " << step;
  }
}

}  // namespace
}  // namespace tandem::ipc
