#include "kernels/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

namespace tandem {
namespace {

TEST(ThreadPoolTest, RunsEveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int count : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.ParallelFor(count, [&](int i) { calls[static_cast<size_t>(i)].fetch_add(1); });
      for (const auto& call : calls) EXPECT_EQ(call.load(), 1);
    }
  }
}

// Plain memory, so that a sanitizer sees whether fork and join order it.
TEST(ThreadPoolTest, WorkIsOrderedByForkAndJoin) {
  ThreadPool pool(4);
  std::vector<int> values(64, 0);
  for (int round = 1; round <= 5000; ++round) {
    pool.ParallelFor(64, [&](int i) { values[static_cast<size_t>(i)] += round; });
  }
  EXPECT_THAT(values, testing::Each(5000 * 5001 / 2));
}

TEST(ThreadPoolTest, WakesSleepingWorkers) {
  ThreadPool pool(3);
  std::atomic<int> calls{0};
  for (int round = 0; round < 20; ++round) {
    // Long beyond the time that idle workers spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.ParallelFor(30, [&](int) { calls.fetch_add(1); });
  }
  EXPECT_EQ(calls.load(), 600);
}

TEST(ThreadPoolTest, CallerWaitsForSlowWorkers) {
  ThreadPool pool(2);
  std::atomic<int> finished{0};
  pool.ParallelFor(2, [&](int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    finished.fetch_add(1);
  });
  EXPECT_EQ(finished.load(), 2);
}

TEST(ThreadPoolTest, ZeroThreadsMeansTheAvailableCores) { EXPECT_GE(ThreadPool(0).threads(), 1); }

}  // namespace
}  // namespace tandem
