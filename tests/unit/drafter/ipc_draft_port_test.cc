#include "services/verifier/ipc_draft_port.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "tests/unit/drafter/handoff_harness.h"
#include "tests/unit/drafter/loop_thread.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// No cold allowance: deadlines are 300 ms from the first round on.
constexpr DraftDeadline::Options kQuick = {
    .floor_seconds = 0.3, .cold_seconds = 0.3, .cold_rounds = 0};

void ExpectDrafts(const Drafts& drafts, const Drafts& expected) {
  ASSERT_EQ(drafts.count, expected.count);
  for (int k = 0; k < expected.count; ++k) EXPECT_EQ(drafts.tokens[k], expected.tokens[k]);
}

TEST(IpcDraftPortTest, NothingHappensWithoutADrafter) {
  HandoffHarness harness;
  EXPECT_FALSE(harness.port->Attached());
  EXPECT_EQ(harness.port->FeatureRows(), nullptr);
  EXPECT_EQ(harness.Round(1, 0, 1, 3).count, 0);
  EXPECT_EQ(harness.outcome, DraftOutcome::kNoDrafter);
}

TEST(IpcDraftPortTest, DraftsComeBackForEveryRound) {
  HandoffHarness harness;
  const auto peer = ScriptedPeer::Attach(harness);
  LoopThread loop(peer->channel());
  loop.Start();
  int64_t position = 0;
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + round % 4;
    const int wanted = round % (kMaxDrafts + 1);
    const Drafts drafts = harness.Round(round % 8, position, count, wanted);
    ASSERT_EQ(harness.outcome, DraftOutcome::kDrafted) << round;
    ExpectDrafts(drafts, HandoffHarness::Expected(round % 8, position, count, wanted));
    position += count;
  }
  loop.Stop();
  EXPECT_EQ(harness.metrics->watchdog_releases.Value(), 0);
}

TEST(IpcDraftPortTest, AsksForNoMoreThanItsLimit) {
  HandoffHarness harness;
  const auto peer = ScriptedPeer::Attach(harness);
  LoopThread loop(peer->channel());
  loop.Start();
  EXPECT_EQ(harness.port->max_drafts(), kMaxDrafts);
  EXPECT_EQ(harness.Round(1, 0, 1, kMaxDrafts + 5).count, kMaxDrafts);
}

TEST(IpcDraftPortTest, LateRoundIsReleasedAtTheDeadline) {
  HandoffHarness harness(kQuick);
  const auto peer = ScriptedPeer::Attach(harness);
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(harness.Round(1, 0, 1, 3).count, 0);
  EXPECT_EQ(harness.outcome, DraftOutcome::kLate);
  EXPECT_GE(Since(start), 0.3);
  EXPECT_EQ(harness.metrics->watchdog_releases.Value(), 1);
  EXPECT_EQ(harness.metrics->discarded_drafts[static_cast<size_t>(Discarded::kLate)]->Value(), 3);
  // No waiting while the released round is unfinished, but the rounds still go out.
  for (int i = 1; i <= 5; ++i) harness.Round(1, i, 1, 3);
  EXPECT_EQ(peer->channel().verified(), 6u);
  EXPECT_EQ(harness.metrics->watchdog_releases.Value(), 1);
}

TEST(IpcDraftPortTest, WaitsAgainOnceTheDrafterHasCaughtUp) {
  HandoffHarness harness(kQuick);
  const auto peer = ScriptedPeer::Attach(harness);
  EXPECT_EQ(harness.Round(1, 0, 1, 3).count, 0);
  for (int i = 1; i <= 3; ++i) harness.Round(1, i, 1, 3);
  EXPECT_EQ(harness.outcome, DraftOutcome::kLate);
  LoopThread loop(peer->channel());
  loop.Start();
  while (peer->channel().view().word(ipc::kDrafted).value.load() < 4) std::this_thread::yield();
  ExpectDrafts(harness.Round(1, 4, 1, 3), HandoffHarness::Expected(1, 4, 1, 3));
  EXPECT_EQ(harness.outcome, DraftOutcome::kDrafted);
  loop.Stop();
  // The missed rounds were fed in order, without drafts, but the newest.
  ASSERT_EQ(loop.drafter.fed.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(loop.drafter.fed[i].position, i);
    EXPECT_EQ(loop.drafter.fed[i].generation, loop.drafter.fed[0].generation);
    EXPECT_EQ(loop.drafter.fed[i].wanted, i < 3 ? 0 : 3);
  }
}

TEST(IpcDraftPortTest, DrafterThatIsAlwaysLateIsCondemned) {
  HandoffHarness harness(kQuick);
  const auto peer = ScriptedPeer::Attach(harness);
  harness.Round(1, 0, 1, 3);
  EXPECT_TRUE(harness.port->Attached());
  // It finishes the released round, and is late again.
  peer->channel().Publish(1, {});
  harness.Round(1, 1, 1, 3);
  EXPECT_EQ(harness.metrics->watchdog_releases.Value(), 2);
  EXPECT_FALSE(harness.port->Attached());
  EXPECT_EQ(harness.attachment->TakeCondemned(), std::vector<uint64_t>{peer->epoch()});
  EXPECT_EQ(harness.metrics->Detaches("late").Value(), 1);
  EXPECT_EQ(harness.port->FeatureRows(), nullptr);
}

TEST(IpcDraftPortTest, OnTimeRoundForgivesTheReleaseBefore) {
  HandoffHarness harness(kQuick);
  const auto peer = ScriptedPeer::Attach(harness);
  FakeDrafter drafter(kTestSizes.slots, kTestSizes.width, kTestSizes.vocab);
  for (int i = 0; i < 3; ++i) {
    harness.Round(1, 3 * i, 1, 3);
    EXPECT_EQ(harness.outcome, DraftOutcome::kLate);
    LoopThread loop(peer->channel());
    loop.Start();
    while (peer->channel().view().word(ipc::kDrafted).value.load() < peer->channel().verified()) {
      std::this_thread::yield();
    }
    harness.Round(1, 3 * i + 1, 1, 3);
    EXPECT_EQ(harness.outcome, DraftOutcome::kDrafted);
    loop.Stop();
  }
  EXPECT_TRUE(harness.port->Attached());
}

TEST(IpcDraftPortTest, ReleaseThatLastsEndsTheAttachment) {
  HandoffHarness harness(kQuick, /*release_window_seconds=*/0.2);
  const auto peer = ScriptedPeer::Attach(harness);
  for (int i = 0; harness.port->Attached() && i < 1000; ++i) {
    harness.Round(1, i, 1, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_FALSE(harness.port->Attached());
  EXPECT_EQ(harness.attachment->TakeCondemned().size(), 1u);
}

TEST(IpcDraftPortTest, DeathInTheMiddleOfAWaitEndsIt) {
  HandoffHarness harness({.floor_seconds = 50});
  const auto peer = ScriptedPeer::Attach(harness);
  std::thread death([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    harness.attachment->End(peer->epoch(), "died");
  });
  EXPECT_EQ(harness.Round(1, 0, 1, 3).count, 0);
  EXPECT_EQ(harness.outcome, DraftOutcome::kNoDrafter);
  death.join();
}

TEST(IpcDraftPortTest, RoundOfAnEndedAttachmentIsNotPublished) {
  HandoffHarness harness;
  const auto first = ScriptedPeer::Attach(harness);
  ASSERT_NE(harness.port->FeatureRows(), nullptr);
  harness.attachment->Closed(first->epoch());
  const auto second = ScriptedPeer::Attach(harness);
  // The pass wrote its features for the first one; the second must not see this round.
  const int32_t token = 5;
  const PublishedLane lane = {
      .slot = 1, .generation = 1, .count = 1, .wanted = 2, .next_tokens = &token};
  harness.port->Publish({&lane, 1});
  Drafts drafts;
  EXPECT_EQ(harness.port->Collect({&drafts, 1}), DraftOutcome::kNoDrafter);
  EXPECT_EQ(first->channel().verified(), 0u);
  EXPECT_EQ(second->channel().verified(), 0u);
  // The next pass adopts it.
  LoopThread loop(second->channel());
  loop.Start();
  harness.Round(1, 0, 1, 3);
  EXPECT_EQ(harness.outcome, DraftOutcome::kDrafted);
}

}  // namespace
}  // namespace tandem
