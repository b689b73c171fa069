#include "common/ipc/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tandem::ipc {
namespace {

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class WatchdogTest : public ::testing::Test {
 protected:
  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
  uint32_t* const word_ = static_cast<uint32_t*>(backend_->Allocate(sizeof(uint32_t)));
  Watchdog watchdog_{backend_.get()};
};

TEST_F(WatchdogTest, ReleasesAtTheDeadline) {
  const Clock::time_point start = Clock::now();
  watchdog_.Arm(start + std::chrono::milliseconds(50), [] { return false; });
  backend_->WaitWord(word_, 1);
  EXPECT_GE(Since(start), 0.05);
  EXPECT_LT(Since(start), 1);
  EXPECT_TRUE(watchdog_.Disarm());
}

TEST_F(WatchdogTest, ReleasesSoonOnceStopped) {
  std::atomic<bool> stopped{false};
  watchdog_.Arm(Clock::time_point::max(), [&] { return stopped.load(); });
  const Clock::time_point start = Clock::now();
  std::thread stop([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stopped = true;
  });
  backend_->WaitWord(word_, 1);
  EXPECT_GE(Since(start), 0.02);
  // Every further wait too.
  for (uint32_t i = 2; i < 20; ++i) backend_->WaitWord(word_, i);
  EXPECT_LT(Since(start), 1);
  EXPECT_TRUE(watchdog_.Disarm());
  stop.join();
}

TEST_F(WatchdogTest, AWaitThatWasAnsweredIsNoRelease) {
  for (uint32_t i = 1; i <= 100; ++i) {
    watchdog_.Arm(Clock::now(), [] { return true; });
    backend_->WriteWord(word_, i);
    backend_->WaitWord(word_, i);
    EXPECT_FALSE(watchdog_.Disarm());
  }
}

TEST_F(WatchdogTest, DisarmedItLeavesWaitsAlone) {
  watchdog_.Arm(Clock::now(), [] { return true; });
  EXPECT_FALSE(watchdog_.Disarm());
  std::thread writer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    backend_->WriteWord(word_, 2);
  });
  backend_->WaitWord(word_, 1);
  EXPECT_EQ(*word_, 2u);
  writer.join();
}

}  // namespace
}  // namespace tandem::ipc
