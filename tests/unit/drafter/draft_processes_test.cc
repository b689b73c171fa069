// Verifier's side here, drafter as a real process: deaths, pauses and restarts cost drafts, nothing
// else.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>

#include "tests/unit/drafter/service_harness.h"

namespace tandem {
namespace {

// Later than the deadline a step may only be by what a loaded machine needs to wake a process.
constexpr double kDeadline = 0.05;
constexpr double kStepSlack = 0.15;
// Cold rounds have the same deadline as others, so that one bound holds for every step.
constexpr DraftDeadline::Options kFlat = {
    .floor_seconds = kDeadline, .cold_seconds = kDeadline, .cold_rounds = 0};

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

// Steps of about a millisecond until `wanted` of them were drafted, for at most `seconds`.
bool DraftedSteps(ServiceHarness& harness, int wanted, double seconds = 10) {
  const auto start = std::chrono::steady_clock::now();
  for (int drafted = 0; drafted < wanted;) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      return false;
    }
    drafted += harness.Step() ? 1 : 0;
    Sleep(0.001);
  }
  return true;
}

class DraftProcessesTest : public ::testing::TestWithParam<bool> {
 protected:
  static ServiceHarness Harness(const std::string& socket,
                                DraftDeadline::Options deadline = {.floor_seconds = 0.05},
                                double lease_seconds = 5) {
    return ServiceHarness(socket, deadline, lease_seconds, MakeCpuBackend(1), GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, DraftProcessesTest, ::testing::Values(false, true),
                         [](const auto& mode) { return mode.param ? "Device" : "Host"; });

TEST_P(DraftProcessesTest, VerifierFirst) {
  ServiceHarness harness = Harness(NewSocketPath());
  EXPECT_FALSE(harness.Step());
  DrafterProcess drafter(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  EXPECT_TRUE(DraftedSteps(harness, 50));
  const HandoffStatus status = harness.handoff.attachment->Status();
  EXPECT_EQ(status.mode, GetParam() ? "device" : "host");
  std::printf("%s mode round trip: p50 %.1f us, p99 %.1f us\n", status.mode.c_str(),
              status.round_trip_seconds * 1e6, status.round_trip_p99_seconds * 1e6);
  EXPECT_GT(status.round_trip_seconds, 0);
}

TEST_P(DraftProcessesTest, DrafterFirst) {
  const std::string socket = NewSocketPath();
  DrafterProcess drafter(ScriptedCommand(socket));
  Sleep(0.3);
  ServiceHarness harness = Harness(socket);
  ASSERT_TRUE(harness.AwaitAttached(true));
  EXPECT_TRUE(DraftedSteps(harness, 10));
}

TEST_P(DraftProcessesTest, VerifierRestartsUnderALivingDrafter) {
  const std::string socket = NewSocketPath();
  auto harness = std::unique_ptr<ServiceHarness>(new ServiceHarness(Harness(socket)));
  DrafterProcess drafter(ScriptedCommand(socket));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(harness->AwaitAttached(true));
    EXPECT_TRUE(DraftedSteps(*harness, 10));
    harness.reset();
    harness = std::unique_ptr<ServiceHarness>(new ServiceHarness(Harness(socket)));
  }
  EXPECT_TRUE(harness->AwaitAttached(true));
}

TEST_P(DraftProcessesTest, KilledAtRandomMoments) {
  ServiceHarness harness = Harness(NewSocketPath(), kFlat);
  std::mt19937 random(11);
  int steps = 0;
  for (int life = 0; life < 20; ++life) {
    DrafterProcess drafter(ScriptedCommand(harness.socket, 1));
    ASSERT_TRUE(harness.AwaitAttached(true)) << "life " << life;
    // At a random moment of a random step, counted in steps because a busy machine stretches time.
    const int last_step = static_cast<int>(random() % 40);
    const auto moment = std::chrono::microseconds(random() % 2'000);
    std::thread killer;
    for (int i = 0; i < 40; ++i, ++steps) {
      if (i == last_step) {
        killer = std::thread([&drafter, moment] {
          std::this_thread::sleep_for(moment);
          drafter.Signal(SIGKILL);
        });
      }
      harness.Step();
      Sleep(0.0005);
    }
    killer.join();
    ASSERT_TRUE(harness.AwaitAttached(false));
  }
  EXPECT_EQ(steps, 800);
  EXPECT_GT(harness.drafted_steps, 100);
  EXPECT_LT(harness.longest_step, kDeadline + kStepSlack);
  EXPECT_EQ(harness.handoff.metrics->Detaches("died").Value(), 20);
}

TEST_P(DraftProcessesTest, ShortPauseCostsOneLateStep) {
  ServiceHarness harness = Harness(NewSocketPath(), kFlat);
  DrafterProcess drafter(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  ASSERT_TRUE(DraftedSteps(harness, 20));
  const double before = harness.handoff.metrics->watchdog_releases.Value();
  drafter.Signal(SIGSTOP);
  for (int i = 0; i < 100; ++i) {
    harness.Step();
    Sleep(0.001);
  }
  EXPECT_EQ(harness.handoff.metrics->watchdog_releases.Value(), before + 1);
  drafter.Signal(SIGCONT);
  EXPECT_TRUE(DraftedSteps(harness, 20));
  EXPECT_EQ(harness.handoff.metrics->Attaches("ok").Value(), 1);
  EXPECT_LT(harness.longest_step, kDeadline + kStepSlack);
}

TEST_P(DraftProcessesTest, LongPauseEndsTheLeaseAndItAttachesAgain) {
  ServiceHarness harness = Harness(NewSocketPath(), kFlat, /*lease_seconds=*/0.6);
  DrafterProcess drafter(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  ASSERT_TRUE(DraftedSteps(harness, 20));
  const uint64_t epoch = harness.handoff.attachment->live_epoch();
  drafter.Signal(SIGSTOP);
  const auto stopped = std::chrono::steady_clock::now();
  while (harness.handoff.port->Attached()) {
    harness.Step();
    Sleep(0.001);
    ASSERT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(5));
  }
  EXPECT_EQ(harness.handoff.metrics->Detaches("late").Value(), 1);
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(harness.Step());
  drafter.Signal(SIGCONT);
  ASSERT_TRUE(harness.AwaitAttached(true));
  EXPECT_GT(harness.handoff.attachment->live_epoch(), epoch);
  EXPECT_TRUE(DraftedSteps(harness, 20));
  EXPECT_LT(harness.longest_step, kDeadline + kStepSlack);
}

TEST_P(DraftProcessesTest, SlowDrafterIsSentAwayAndComesBack) {
  ServiceHarness harness =
      Harness(NewSocketPath(), {.floor_seconds = 0.02, .cold_seconds = 0.02, .cold_rounds = 0});
  DrafterProcess drafter(ScriptedCommand(harness.socket, 60));
  ASSERT_TRUE(harness.AwaitAttached(true));
  const auto start = std::chrono::steady_clock::now();
  while (harness.handoff.metrics->Detaches("late").Value() < 2) {
    harness.Step();
    Sleep(0.005);
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  }
  EXPECT_GE(harness.handoff.metrics->watchdog_releases.Value(), 4);
  EXPECT_LT(harness.longest_step, 0.02 + kStepSlack);
}

TEST_P(DraftProcessesTest, SecondDrafterWaitsForTheFirst) {
  ServiceHarness harness = Harness(NewSocketPath());
  auto first = std::make_unique<DrafterProcess>(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  const uint64_t epoch = harness.handoff.attachment->live_epoch();
  DrafterProcess second(ScriptedCommand(harness.socket));
  const auto start = std::chrono::steady_clock::now();
  while (harness.handoff.metrics->Attaches("BUSY").Value() == 0) {
    ASSERT_TRUE(DraftedSteps(harness, 5));
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
  EXPECT_EQ(harness.handoff.attachment->live_epoch(), epoch);
  first.reset();
  ASSERT_TRUE(harness.AwaitAttached(false));
  ASSERT_TRUE(harness.AwaitAttached(true));
  EXPECT_TRUE(DraftedSteps(harness, 10));
}

TEST_P(DraftProcessesTest, SigtermClosesTheAttachment) {
  ServiceHarness harness = Harness(NewSocketPath());
  DrafterProcess drafter(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  ASSERT_TRUE(DraftedSteps(harness, 10));
  drafter.Signal(SIGTERM);
  EXPECT_EQ(drafter.Join(), 0);
  EXPECT_TRUE(harness.AwaitAttached(false));
  EXPECT_EQ(harness.handoff.metrics->Detaches("closed").Value(), 1);
}

TEST_P(DraftProcessesTest, DrainRevokesAndRefuses) {
  ServiceHarness harness = Harness(NewSocketPath());
  DrafterProcess drafter(ScriptedCommand(harness.socket));
  ASSERT_TRUE(harness.AwaitAttached(true));
  harness.service->Drain();
  EXPECT_FALSE(harness.handoff.port->Attached());
  EXPECT_EQ(harness.handoff.metrics->Detaches("revoked").Value(), 1);
  const auto start = std::chrono::steady_clock::now();
  while (harness.handoff.metrics->Attaches("DRAINING").Value() == 0) {
    Sleep(0.01);
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  }
}

}  // namespace
}  // namespace tandem
