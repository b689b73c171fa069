#include "services/drafter/draft_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/ipc/region.h"
#include "tests/unit/drafter/fake_drafter.h"

namespace tandem {
namespace {

constexpr ipc::LayoutSizes kSizes = {
    .slots = 4, .max_lanes = 3, .max_rows = 8, .width = 4, .vocab = 100};

// A verifier whose every word is scripted, and a loop that runs until it has answered a round.
class DraftLoopTest : public ::testing::Test {
 protected:
  DraftLoopTest()
      : layout_(*ipc::ComputeLayout(kSizes)),
        control_(*ipc::Region::Create("control", layout_.control_bytes)),
        features_(*ipc::Region::Create("features", layout_.feature_bytes)),
        view_(layout_, control_->data(), features_->data(), 6),
        verifier_(view_),
        page_(*MetricsPage::Create("")),
        metrics_(*page_),
        drafter_(kSizes.slots, kSizes.width, kSizes.vocab),
        loop_(ipc::DrafterChannel(view_), &drafter_, &metrics_) {
    verifier_.Start(1);
  }

  static ipc::LaneRecord Lane(int slot, int64_t position, int first_row, int count, int wanted) {
    return {.position = position,
            .slot = slot,
            .generation = 1,
            .first_row = first_row,
            .count = count,
            .wanted = wanted};
  }

  void Publish(uint64_t step, const std::vector<ipc::LaneRecord>& lanes) {
    verifier_.Begin(step);
    for (size_t i = 0; i < lanes.size(); ++i) {
      view_.lanes(step)[i] = lanes[i];
      for (int r = 0; r < lanes[i].count && lanes[i].first_row + r < kSizes.max_rows; ++r) {
        const int row = lanes[i].first_row + r;
        view_.tokens(step)[row] = 10 + row;
        view_.features(step)[row * 3 * kSizes.width] =
            FakeFeature(lanes[i].slot, lanes[i].position + r);
      }
    }
    verifier_.Publish(step, static_cast<int>(lanes.size()));
  }

  // Runs the loop until it has answered round `step`.
  void Serve(uint64_t step) {
    loop_.Run([this, step] { return verifier_.drafted() >= step; });
  }

  std::vector<ipc::DraftRecord> Answers(uint64_t step, size_t lanes) {
    std::vector<ipc::DraftRecord> records(lanes);
    verifier_.TakeDrafts(step, absl::MakeSpan(records));
    return records;
  }

  ipc::Layout layout_;
  std::unique_ptr<ipc::Region> control_;
  std::unique_ptr<ipc::Region> features_;
  ipc::BlockView view_;
  ipc::VerifierChannel verifier_;
  std::unique_ptr<MetricsPage> page_;
  DrafterMetrics metrics_;
  FakeDrafter drafter_;
  DraftLoop loop_;
};

TEST_F(DraftLoopTest, AnswersEveryLaneWithItsEcho) {
  Publish(1, {Lane(2, 40, 0, 2, 3), Lane(0, 7, 5, 3, 8), Lane(3, 0, 4, 1, 0)});
  Serve(1);
  const auto records = Answers(1, 3);
  const int slots[] = {2, 0, 3};
  const int counts[] = {3, 8, 0};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(records[i].epoch, 6u);
    EXPECT_EQ(records[i].step, 1u);
    EXPECT_EQ(records[i].generation, 1u);
    EXPECT_EQ(records[i].slot, slots[i]);
    ASSERT_EQ(records[i].count, counts[i]);
  }
  for (int k = 0; k < 3; ++k) EXPECT_EQ(records[0].tokens[k], FakeDraft(11, 41, k, 100));
  for (int k = 0; k < 8; ++k) EXPECT_EQ(records[1].tokens[k], FakeDraft(17, 9, k, 100));
}

TEST_F(DraftLoopTest, BadLanesAreSkippedAndTheOthersServed) {
  const ipc::LaneRecord bad[] = {Lane(-1, 0, 0, 1, 1), Lane(4, 0, 0, 1, 1),  Lane(1, 0, 0, 0, 1),
                                 Lane(1, 0, 7, 2, 1),  Lane(1, -5, 0, 1, 1), Lane(1, 0, 0, 1, 9)};
  uint64_t step = 0;
  for (const ipc::LaneRecord& lane : bad) {
    ++step;
    Publish(step, {lane, Lane(2, static_cast<int64_t>(step), 3, 1, 2)});
    Serve(step);
    const auto records = Answers(step, 2);
    EXPECT_EQ(records[0].count, 0) << step;
    EXPECT_EQ(records[1].count, 2) << step;
  }
  EXPECT_EQ(metrics_.invalid_lanes.Value(), 6);
}

TEST_F(DraftLoopTest, SlotThatComesTwiceIsServedOnce) {
  Publish(1, {Lane(2, 0, 0, 1, 2), Lane(2, 1, 1, 1, 2)});
  Serve(1);
  ASSERT_EQ(drafter_.fed.size(), 1u);
  EXPECT_EQ(drafter_.fed[0].position, 0);
  EXPECT_EQ(Answers(1, 2)[1].count, 0);
}

TEST_F(DraftLoopTest, NewGenerationAndColdFlagStartCold) {
  Publish(1, {Lane(2, 0, 0, 1, 1)});
  Serve(1);
  ipc::LaneRecord lane = Lane(2, 1, 0, 1, 1);
  Publish(2, {lane});
  Serve(2);
  lane.generation = 2;
  Publish(3, {lane});
  Serve(3);
  lane.flags = ipc::kLaneCold;
  Publish(4, {lane});
  Serve(4);
  ASSERT_EQ(drafter_.fed.size(), 4u);
  EXPECT_EQ(drafter_.fed[0].generation, drafter_.fed[1].generation);
  EXPECT_NE(drafter_.fed[1].generation, drafter_.fed[2].generation);
  EXPECT_NE(drafter_.fed[2].generation, drafter_.fed[3].generation);
}

TEST_F(DraftLoopTest, LaneAfterABadOneStartsCold) {
  Publish(1, {Lane(2, 0, 0, 1, 1)});
  Serve(1);
  Publish(2, {Lane(2, 1, 0, 99, 1)});
  Serve(2);
  Publish(3, {Lane(2, 2, 0, 1, 1)});
  Serve(3);
  ASSERT_EQ(drafter_.fed.size(), 2u);
  EXPECT_NE(drafter_.fed[0].generation, drafter_.fed[1].generation);
}

TEST_F(DraftLoopTest, RoundsBeyondTheRingAreSkipped) {
  for (uint64_t step = 1; step <= 30; ++step) {
    Publish(step, {Lane(2, static_cast<int64_t>(step), 0, 1, 2)});
  }
  Serve(30);
  // Rounds 24 ... 30 cannot be in the middle of being overwritten.
  ASSERT_EQ(drafter_.fed.size(), 7u);
  EXPECT_EQ(drafter_.fed.front().position, 24);
  EXPECT_EQ(drafter_.fed.front().wanted, 0);
  EXPECT_EQ(drafter_.fed.back().position, 30);
  EXPECT_EQ(drafter_.fed.back().wanted, 2);
}

TEST_F(DraftLoopTest, RoundOverwrittenMeanwhileMakesItsLanesCold) {
  Publish(1, {Lane(2, 1, 0, 1, 2)});
  // While round 1 is being drafted the verifier goes on until its copy may be in use again.
  drafter_.before_draft = [this] {
    drafter_.before_draft = nullptr;
    for (uint64_t step = 2; step <= 8; ++step) {
      Publish(step, {Lane(2, static_cast<int64_t>(step), 0, 1, 2)});
    }
  };
  Serve(8);
  EXPECT_EQ(Answers(1, 1)[0].count, 0);
  ASSERT_GE(drafter_.fed.size(), 3u);
  EXPECT_NE(drafter_.fed[0].generation, drafter_.fed[1].generation);
  EXPECT_EQ(drafter_.fed[1].generation, drafter_.fed[2].generation);
}

TEST_F(DraftLoopTest, GarbageInEveryRecordNeverReachesTheDrafter) {
  uint32_t state = 1;
  for (uint64_t step = 1; step <= 300; ++step) {
    Publish(step, {Lane(1, static_cast<int64_t>(step), 0, 1, 2), Lane(2, 5, 2, 2, 3)});
    auto* bytes = reinterpret_cast<unsigned char*>(view_.lanes(step));
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525u + 1013904223u;
      bytes[(state >> 8) % (2 * sizeof(ipc::LaneRecord))] ^=
          static_cast<unsigned char>(state >> 24);
    }
    Serve(step);
  }
  for (const FakeDrafter::Fed& fed : drafter_.fed) {
    EXPECT_TRUE(fed.slot >= 0 && fed.slot < kSizes.slots);
    EXPECT_TRUE(fed.count >= 1 && fed.count <= kSizes.max_rows);
    EXPECT_TRUE(fed.wanted >= 0 && fed.wanted <= kMaxDrafts);
    EXPECT_GE(fed.position, 0);
  }
}

}  // namespace
}  // namespace tandem
