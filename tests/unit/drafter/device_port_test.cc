// Device mode between a verifier's port and a drafter's loop of the same process.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "tests/unit/drafter/handoff_harness.h"
#include "tests/unit/drafter/loop_thread.h"

namespace tandem {
namespace {

// No cold allowance: deadlines are 300 ms from the first round on.
constexpr DraftDeadline::Options kQuick = {
    .floor_seconds = 0.3, .cold_seconds = 0.3, .cold_rounds = 0};

class DevicePortTest : public ::testing::Test {
 protected:
  explicit DevicePortTest(DraftDeadline::Options deadline = {.floor_seconds = 5},
                          uint64_t first_step = 1)
      : harness_(deadline, 10, MakeCpuBackend(1), /*device=*/true, first_step),
        peer_(ScriptedPeer::Attach(harness_)),
        loop_(peer_->channel(), peer_->backend()) {}

  void ExpectDrafted(int slot, int64_t position, int count, int wanted) {
    const Drafts drafts = harness_.Round(slot, position, count, wanted);
    const Drafts expected = HandoffHarness::Expected(slot, position, count, wanted);
    ASSERT_EQ(drafts.count, expected.count) << "position " << position;
    for (int k = 0; k < expected.count; ++k) EXPECT_EQ(drafts.tokens[k], expected.tokens[k]);
  }
  double Releases() const { return harness_.metrics->watchdog_releases.Value(); }
  double Discards(Discarded why) const {
    return harness_.metrics->discarded_drafts[static_cast<size_t>(why)]->Value();
  }

  HandoffHarness harness_;
  const std::unique_ptr<ScriptedPeer> peer_;
  LoopThread loop_;
};

class QuickDevicePortTest : public DevicePortTest {
 protected:
  QuickDevicePortTest() : DevicePortTest(kQuick) {}
};

TEST_F(DevicePortTest, DraftsComeWithTheNextPass) {
  EXPECT_EQ(harness_.attachment->Status().mode, "device");
  EXPECT_GT(harness_.attachment->Status().round_trip_seconds, 0);
  loop_.Start();
  int64_t position = 0;
  for (int round = 0; round < 300; ++round) {
    const int count = 1 + round % (kMaxDrafts + 1);
    ExpectDrafted(round % 8, position, count, 1 + round % kMaxDrafts);
    EXPECT_EQ(harness_.outcome, DraftOutcome::kOnDevice);
    position += count;
  }
  loop_.Stop();
  EXPECT_EQ(Releases(), 0);
  // The drafter saw exactly what was accepted.
  ASSERT_EQ(loop_.drafter.fed.size(), 300u);
  for (int round = 0; round < 300; ++round)
    EXPECT_EQ(loop_.drafter.fed[static_cast<size_t>(round)].count, 1 + round % (kMaxDrafts + 1));
}

// The words wrap while rounds go on.
class WrappingDevicePortTest : public DevicePortTest {
 protected:
  WrappingDevicePortTest() : DevicePortTest({.floor_seconds = 5}, (uint64_t{1} << 32) - 20) {}
};

TEST_F(WrappingDevicePortTest, WordsWrap) {
  loop_.Start();
  for (int64_t position = 0; position < 60; ++position) ExpectDrafted(1, position, 1, 3);
  loop_.Stop();
  EXPECT_EQ(Releases(), 0);
  EXPECT_EQ(peer_->channel().verified(), (uint64_t{1} << 32) + 39);
  EXPECT_EQ(*peer_->channel().view().device_word(ipc::kDeviceDrafted), 39u);
}

// The drafter acknowledges a round and then takes too long: that step goes without, and drafting
// goes on when the drafter has caught up.
TEST_F(QuickDevicePortTest, LateDraftsAreReleased) {
  std::atomic<bool> slow{true};
  loop_.drafter.before_draft = [&slow] {
    if (slow.exchange(false)) std::this_thread::sleep_for(std::chrono::milliseconds(800));
  };
  loop_.Start();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(harness_.Round(1, 0, 1, 3).count, 0);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(harness_.outcome, DraftOutcome::kOnDevice);
  EXPECT_GE(took.count(), 0.3);
  EXPECT_LT(took.count(), 0.7);
  EXPECT_EQ(Releases(), 1);
  EXPECT_EQ(Discards(Discarded::kLate), 3);
  // Nothing is waited for until then.
  EXPECT_EQ(harness_.Round(1, 1, 1, 3).count, 0);
  EXPECT_EQ(harness_.outcome, DraftOutcome::kLate);
  int64_t position = 2;
  while (harness_.Round(1, position++, 1, 3).count == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_LT(position, 1000);
  }
  for (int i = 0; i < 20; ++i) ExpectDrafted(1, position++, 1, 3);
  EXPECT_EQ(Releases(), 1);
  EXPECT_EQ(harness_.metrics->Detaches("late").Value(), 0);
  loop_.Stop();
}

TEST_F(QuickDevicePortTest, TwoReleasesEndTheAttachment) {
  loop_.drafter.before_draft = [] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); };
  loop_.Start();
  int64_t position = 0;
  while (harness_.port->Attached()) {
    EXPECT_EQ(harness_.Round(1, position++, 1, 3).count, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_LT(position, 1000);
  }
  EXPECT_EQ(Releases(), 2);
  EXPECT_EQ(harness_.metrics->Detaches("late").Value(), 1);
}

TEST_F(QuickDevicePortTest, WithoutAcknowledgementNothingIsWaitedFor) {
  // The loop does not run: as a drafter that died behind the probe.
  EXPECT_EQ(harness_.Round(1, 0, 1, 3).count, 0);
  EXPECT_EQ(harness_.outcome, DraftOutcome::kLate);
  EXPECT_EQ(Releases(), 1);
}

// The end of the attachment ends the wait of the device.
TEST_F(DevicePortTest, ADeadDrafterIsNotWaitedFor) {
  std::atomic<bool> end{false};
  loop_.drafter.before_draft = [&end] {
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  loop_.Start();
  std::thread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    harness_.attachment->End(peer_->epoch(), "died");
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(harness_.Round(1, 0, 1, 3).count, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  killer.join();
  EXPECT_EQ(harness_.Round(1, 1, 1, 3).count, 0);
  EXPECT_EQ(harness_.outcome, DraftOutcome::kNoDrafter);
  EXPECT_EQ(Releases(), 0);
  end = true;
  loop_.Stop();
}

// The drafter's own wait ends when it is told to stop, although the verifier never writes.
TEST_F(DevicePortTest, AStoppedDrafterLeavesItsWait) {
  loop_.Start();
  const int32_t token = 1;
  const PublishedLane lane = {
      .slot = 1, .generation = 1, .count = 1, .wanted = 3, .next_tokens = &token, .chooses = true};
  ASSERT_NE(harness_.port->FeatureRows(), nullptr);
  harness_.port->Plan({&lane, 1});
  while (peer_->channel().view().word(ipc::kDrafted).value.load() < 1) std::this_thread::yield();
  loop_.Stop();
  EXPECT_TRUE(loop_.drafter.fed.empty());
}

// Answers rounds by what `answer` makes of the right record.
class ScriptedAnswers final {
 public:
  ScriptedAnswers(const ScriptedPeer& peer, std::function<void(ipc::DraftRecord&)> answer)
      : peer_(peer), answer_(std::move(answer)) {}
  void Run(uint64_t step) {
    const ipc::BlockView& view = peer_.channel().view();
    peer_.channel().WaitVerified(step, ipc::After(5), [] { return false; });
    peer_.channel().Acknowledge(step);
    peer_.backend()->WaitWord(view.device_word(ipc::kDeviceVerified), static_cast<uint32_t>(step));
    ipc::DraftRecord record = {.epoch = peer_.epoch(),
                               .step = step,
                               .generation = 1,
                               .slot = 2,
                               .count = 3,
                               .tokens = {11, 12, 13}};
    answer_(record);
    std::memcpy(view.device_drafts(step), &record, sizeof(record));
    peer_.backend()->WriteWord(view.device_word(ipc::kDeviceDrafted), static_cast<uint32_t>(step));
  }

 private:
  const ScriptedPeer& peer_;
  const std::function<void(ipc::DraftRecord&)> answer_;
};

TEST_F(DevicePortTest, GarbageCostsDraftsOnly) {
  std::mt19937 random(3);
  int taken = 0;
  for (uint64_t step = 1; step <= 300; ++step) {
    ScriptedAnswers answers(*peer_, [&random](ipc::DraftRecord& record) {
      auto* words = reinterpret_cast<uint32_t*>(&record);
      const int changes = static_cast<int>(random() % 3);
      for (int i = 0; i < changes; ++i) words[random() % (sizeof(record) / 4)] = random();
    });
    std::thread thread([&] { answers.Run(step); });
    const Drafts drafts = harness_.Round(2, static_cast<int64_t>(step), 1, 3);
    thread.join();
    taken += drafts.count;
    for (int k = 0; k < drafts.count; ++k) {
      EXPECT_GE(drafts.tokens[k], 0);
      EXPECT_LT(drafts.tokens[k], kTestSizes.vocab);
    }
  }
  EXPECT_GT(taken, 300);
  EXPECT_LT(taken, 900);
  EXPECT_EQ(taken + Discards(Discarded::kStale), 900);
  EXPECT_EQ(Releases(), 0);
}

TEST_F(DevicePortTest, ANewAttachmentStartsWithEmptyWords) {
  loop_.Start();
  int64_t position = 0;
  for (; position < 20; ++position) ExpectDrafted(1, position, 1, 3);
  loop_.Stop();
  harness_.attachment->Closed(peer_->epoch());
  for (int i = 0; i < 3; ++i) {
    const auto next = ScriptedPeer::Attach(harness_);
    ASSERT_NE(next, nullptr);
    LoopThread loop(next->channel(), next->backend());
    loop.Start();
    for (int round = 0; round < 20; ++round) ExpectDrafted(1, position++, 1, 3);
    loop.Stop();
    harness_.attachment->Closed(next->epoch());
  }
  EXPECT_EQ(Releases(), 0);
}

}  // namespace
}  // namespace tandem
