// What a broken or hostile drafter can write, and what the engine sees of it: only drafts that were
// asked for, below V.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "tests/unit/drafter/handoff_harness.h"

namespace tandem {
namespace {

constexpr DraftDeadline::Options kDeadline = {
    .floor_seconds = 0.3, .cold_seconds = 0.3, .cold_rounds = 0};
constexpr int kWanted = 3;

// Answers one round with whatever `answer` makes of a right record.
DraftOutcome RoundWith(HandoffHarness& harness, const ScriptedPeer& peer,
                       const std::function<void(ipc::DraftRecord&)>& answer, Drafts& drafts) {
  const uint64_t step = peer.channel().verified() + 1;
  std::thread thread([&] {
    peer.channel().WaitVerified(step, ipc::Clock::now() + std::chrono::seconds(5),
                                [] { return false; });
    ipc::DraftRecord record = {.epoch = peer.epoch(),
                               .step = step,
                               .generation = 1,
                               .slot = 2,
                               .count = kWanted,
                               .tokens = {11, 12, 13}};
    answer(record);
    peer.channel().Publish(step, {&record, 1});
  });
  drafts = harness.Round(2, static_cast<int64_t>(step), 1, kWanted);
  thread.join();
  return harness.outcome;
}

TEST(BadDraftsTest, RightRecordIsTaken) {
  HandoffHarness harness(kDeadline);
  const auto peer = ScriptedPeer::Attach(harness);
  Drafts drafts;
  EXPECT_EQ(RoundWith(
                harness, *peer, [](auto&) {}, drafts),
            DraftOutcome::kDrafted);
  ASSERT_EQ(drafts.count, 3);
  EXPECT_EQ(drafts.tokens[2], 13);
}

TEST(BadDraftsTest, WrongEchoDropsTheLane) {
  const std::function<void(ipc::DraftRecord&)> changes[] = {
      [](auto& r) { ++r.epoch; },   [](auto& r) { --r.epoch; },      [](auto& r) { ++r.step; },
      [](auto& r) { r.step -= 8; }, [](auto& r) { ++r.generation; }, [](auto& r) { r.slot = 3; },
      [](auto& r) { r.slot = -1; }, [](auto& r) { r = {}; },
  };
  HandoffHarness harness(kDeadline);
  const auto peer = ScriptedPeer::Attach(harness);
  double stale = 0;
  for (const auto& change : changes) {
    Drafts drafts;
    EXPECT_EQ(RoundWith(harness, *peer, change, drafts), DraftOutcome::kInvalid);
    EXPECT_EQ(drafts.count, 0);
    stale += kWanted;
  }
  EXPECT_EQ(harness.metrics->discarded_drafts[static_cast<size_t>(Discarded::kStale)]->Value(),
            stale);
}

TEST(BadDraftsTest, CountsAreClampedAndIdsCut) {
  constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
  constexpr int32_t kMin = std::numeric_limits<int32_t>::min();
  struct Case {
    int32_t count;
    int32_t second;
    int32_t expected;
  };
  const Case cases[] = {{4, 12, 3},   {kMax, 12, 3}, {-1, 12, 0},  {kMin, 12, 0}, {0, 12, 0},
                        {3, 1000, 1}, {3, -1, 1},    {3, kMax, 1}, {3, kMin, 1},  {2, 999, 2}};
  HandoffHarness harness(kDeadline);
  const auto peer = ScriptedPeer::Attach(harness);
  for (const Case& c : cases) {
    Drafts drafts;
    RoundWith(
        harness, *peer,
        [&c](ipc::DraftRecord& record) {
          record.count = c.count;
          record.tokens[1] = c.second;
        },
        drafts);
    EXPECT_EQ(drafts.count, c.expected) << c.count << " " << c.second;
  }
}

TEST(BadDraftsTest, FlippedBytesNeverPassTheChecks) {
  HandoffHarness harness(kDeadline);
  const auto peer = ScriptedPeer::Attach(harness);
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    Drafts drafts;
    RoundWith(
        harness, *peer,
        [&random](ipc::DraftRecord& record) {
          auto* bytes = reinterpret_cast<unsigned char*>(&record);
          for (int i = 0; i < 3; ++i) bytes[random() % sizeof(record)] ^= 1u << (random() % 8);
        },
        drafts);
    ASSERT_LE(drafts.count, kWanted);
    for (int k = 0; k < drafts.count; ++k) {
      ASSERT_GE(drafts.tokens[k], 0);
      ASSERT_LT(drafts.tokens[k], kTestSizes.vocab);
    }
  }
  EXPECT_TRUE(harness.port->Attached());
}

TEST(BadDraftsTest, AnswerBeforeTheRoundEndsTheAttachment) {
  for (const uint64_t word : {uint64_t{2}, std::numeric_limits<uint64_t>::max()}) {
    HandoffHarness harness(kDeadline);
    const auto peer = ScriptedPeer::Attach(harness);
    ipc::Publish(peer->channel().view().word(ipc::kDrafted), word);
    EXPECT_EQ(harness.Round(2, 0, 1, kWanted).count, 0);
    EXPECT_EQ(harness.outcome, DraftOutcome::kInvalid);
    EXPECT_FALSE(harness.port->Attached());
  }
}

TEST(BadDraftsTest, WordWithoutDraftsYieldsNone) {
  HandoffHarness harness(kDeadline);
  const auto peer = ScriptedPeer::Attach(harness);
  Drafts drafts;
  ASSERT_EQ(RoundWith(
                harness, *peer, [](auto&) {}, drafts),
            DraftOutcome::kDrafted);
  std::thread thread([&] {
    peer->channel().WaitVerified(2, ipc::Clock::now() + std::chrono::seconds(5),
                                 [] { return false; });
    ipc::Publish(peer->channel().view().word(ipc::kDrafted), 2);
  });
  EXPECT_EQ(harness.Round(2, 2, 1, kWanted).count, 0);
  EXPECT_EQ(harness.outcome, DraftOutcome::kInvalid);
  thread.join();
}

TEST(BadDraftsTest, ZombieOfAnOldEpochReachesNothing) {
  HandoffHarness harness(kDeadline);
  const auto zombie = ScriptedPeer::Attach(harness);
  harness.Round(2, 0, 1, kWanted);
  harness.attachment->End(zombie->epoch(), "died");
  const auto peer = ScriptedPeer::Attach(harness);
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    for (uint64_t step = 1; !stop.load(); ++step) {
      ipc::DraftRecord record = {
          .epoch = peer->epoch(), .step = step % 40, .generation = 1, .slot = 2, .count = 3};
      for (uint64_t copy = 0; copy < ipc::kRing; ++copy)
        *zombie->channel().view().drafts(copy) = record;
      ipc::Publish(zombie->channel().view().word(ipc::kDrafted), step);
    }
  });
  for (int round = 0; round < 30; ++round) {
    Drafts drafts;
    EXPECT_EQ(RoundWith(
                  harness, *peer, [](auto&) {}, drafts),
              DraftOutcome::kDrafted);
    EXPECT_EQ(drafts.tokens[0], 11);
  }
  stop.store(true);
  scribbler.join();
  EXPECT_TRUE(harness.port->Attached());
}

}  // namespace
}  // namespace tandem
