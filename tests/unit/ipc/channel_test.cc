#include "common/ipc/channel.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/ipc/region.h"
#include "tests/unit/ipc/child.h"

namespace tandem::ipc {
namespace {

constexpr LayoutSizes kSizes = {.slots = 4, .max_lanes = 2, .max_rows = 6, .width = 8, .vocab = 50};
constexpr auto kLong = std::chrono::seconds(60);

bool Never() { return false; }

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest()
      : layout_(*ComputeLayout(kSizes)),
        control_(*Region::Create("control", layout_.control_bytes)),
        features_(*Region::Create("features", layout_.feature_bytes)) {}

  BlockView View(uint64_t epoch) const {
    return BlockView(layout_, control_->data(), features_->data(), epoch);
  }
  // Round `step` with one lane of one row.
  void PublishRound(const VerifierChannel& channel, uint64_t step) const {
    channel.Begin(step);
    const LaneRecord lane = {.position = static_cast<int64_t>(step),
                             .slot = 1,
                             .generation = 3,
                             .count = 1,
                             .wanted = 2};
    channel.WriteLanes(step, {&lane, 1});
    const auto token = static_cast<int32_t>(step % 50);
    channel.WriteTokens(step, 0, {&token, 1});
    channel.view().features(step)[0] = static_cast<float>(step);
    channel.Publish(step, 1);
  }

  Layout layout_;
  std::unique_ptr<Region> control_;
  std::unique_ptr<Region> features_;
};

TEST_F(ChannelTest, RoundsCrossBetweenProcesses) {
  const VerifierChannel verifier(View(8));
  verifier.Start(99);
  Child peer([this] {
    const DrafterChannel drafter(View(8));
    Round round;
    for (uint64_t step = 1; step <= 300; ++step) {
      if (drafter.WaitVerified(step, Clock::now() + kLong, Never) != WaitResult::kReached) return 1;
      if (!drafter.Read(step, round) || round.lanes.size() != 1) return 2;
      if (round.lanes[0].position != static_cast<int64_t>(step)) return 3;
      if (drafter.view().features(step)[0] != static_cast<float>(step)) return 4;
      const DraftRecord record = {.epoch = 8,
                                  .step = step,
                                  .generation = 3,
                                  .slot = 1,
                                  .count = 1,
                                  .tokens = {round.tokens[0] + 1}};
      drafter.Publish(step, {&record, 1});
    }
    return 0;
  });
  for (uint64_t step = 1; step <= 300; ++step) {
    PublishRound(verifier, step);
    ASSERT_EQ(verifier.WaitDrafted(step, Clock::now() + kLong, Never), WaitResult::kReached);
    DraftRecord record;
    verifier.TakeDrafts(step, {&record, 1});
    EXPECT_EQ(record.step, step);
    EXPECT_EQ(record.tokens[0], static_cast<int32_t>(step % 50) + 1);
  }
  EXPECT_EQ(peer.Join(), 0);
}

TEST_F(ChannelTest, MissedRoundsStayReadableForTheRing) {
  const VerifierChannel verifier(View(8));
  const DrafterChannel drafter(View(8));
  verifier.Start(0);
  for (uint64_t step = 1; step <= 20; ++step) PublishRound(verifier, step);
  Round round;
  for (uint64_t step = 1; step <= 12; ++step) EXPECT_FALSE(drafter.Read(step, round)) << step;
  for (uint64_t step = 13; step <= 20; ++step) {
    ASSERT_TRUE(drafter.Read(step, round)) << step;
    EXPECT_EQ(round.lanes[0].position, static_cast<int64_t>(step));
  }
  // The pass for round 21 may be writing into the copy of round 13 already.
  EXPECT_TRUE(drafter.MayBeOverwritten(13));
  EXPECT_FALSE(drafter.MayBeOverwritten(14));
  // A copy that is being rewritten is no round.
  verifier.Begin(21);
  EXPECT_FALSE(drafter.Read(13, round));
  EXPECT_FALSE(drafter.Read(21, round));
}

TEST_F(ChannelTest, NeighbouringEpochsHaveTheirOwnWords) {
  const VerifierChannel old_verifier(View(8));
  old_verifier.Start(0);
  PublishRound(old_verifier, 1);
  const VerifierChannel verifier(View(9));
  verifier.Start(0);
  const DrafterChannel zombie(View(8));
  const DraftRecord late = {.epoch = 8, .step = 5};
  zombie.Publish(5, {&late, 1});
  EXPECT_EQ(verifier.drafted(), 0u);
  // Nor does the new drafter read the old round.
  const DrafterChannel drafter(View(9));
  Round round;
  EXPECT_EQ(drafter.verified(), 0u);
  EXPECT_FALSE(drafter.Read(1, round));
}

TEST_F(ChannelTest, ImpossibleRoundsAreNotRead) {
  const VerifierChannel verifier(View(8));
  const DrafterChannel drafter(View(8));
  verifier.Start(0);
  Round round;
  for (const int32_t lanes : {-1, 3, 1'000'000'000}) {
    PublishRound(verifier, 1);
    verifier.view().step(1)->lanes = lanes;
    EXPECT_FALSE(drafter.Read(1, round)) << lanes;
  }
  PublishRound(verifier, 1);
  verifier.view().step(1)->epoch = 7;
  EXPECT_FALSE(drafter.Read(1, round));
}

TEST_F(ChannelTest, LanesOutsideTheBlockAreInvalid) {
  const VerifierChannel verifier(View(8));
  const DrafterChannel drafter(View(8));
  verifier.Start(0);
  PublishRound(verifier, 1);
  Round round;
  ASSERT_TRUE(drafter.Read(1, round));
  const LaneRecord good = round.lanes[0];
  EXPECT_TRUE(drafter.ValidLane(good, round));
  constexpr int32_t kMin = INT32_MIN;
  constexpr int32_t kMax = INT32_MAX;
  const auto expect_invalid = [&](auto member, std::vector<int64_t> values) {
    for (const int64_t value : values) {
      LaneRecord lane = good;
      lane.*member = static_cast<std::remove_reference_t<decltype(lane.*member)>>(value);
      EXPECT_FALSE(drafter.ValidLane(lane, round)) << value;
    }
  };
  expect_invalid(&LaneRecord::slot, {-1, 4, kMin, kMax});
  expect_invalid(&LaneRecord::position, {-1, INT64_MIN});
  expect_invalid(&LaneRecord::count, {0, -1, 7, kMin, kMax});
  expect_invalid(&LaneRecord::first_row, {-1, 6, kMin, kMax});
  expect_invalid(&LaneRecord::wanted, {-1, 9, kMin, kMax});
  for (const int32_t token : {-1, 50, kMin, kMax}) {
    Round bad = round;
    bad.tokens[0] = token;
    EXPECT_FALSE(drafter.ValidLane(good, bad)) << token;
  }
}

TEST_F(ChannelTest, ProbeExchanges) {
  const VerifierChannel verifier(View(8));
  verifier.Start(0);
  Child peer([this] {
    const DrafterChannel drafter(View(8));
    for (uint64_t i = 1; i <= 50; ++i) {
      if (drafter.Pong(i, Clock::now() + kLong, Never) != WaitResult::kReached) return 1;
    }
    return 0;
  });
  for (uint64_t i = 1; i <= 50; ++i) {
    ASSERT_EQ(verifier.Ping(i, Clock::now() + kLong, Never), WaitResult::kReached);
  }
  EXPECT_EQ(peer.Join(), 0);
  EXPECT_EQ(verifier.Ping(51, Clock::now() + std::chrono::milliseconds(20), Never),
            WaitResult::kDeadline);
}

}  // namespace
}  // namespace tandem::ipc
