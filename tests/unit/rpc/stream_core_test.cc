#include "common/rpc/stream_core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tandem {
namespace {

using Core = StreamCore<std::string>;
using Step = Core::Step;

// Neighbours merge unless one of them is marked with '!'.
bool Merge(std::string& into, std::string& from) {
  if (into.front() == '!' || from.front() == '!') return false;
  into += from;
  return true;
}

TEST(StreamCore, OneWriteInFlightAndTheRestBecomesOneMessage) {
  Core core(Merge);
  EXPECT_EQ(core.Push("a", 1), Step::kWrite);
  EXPECT_EQ(core.writing(), "a");
  EXPECT_EQ(core.Push("b", 2), Step::kNone);
  EXPECT_EQ(core.Push("c", 3), Step::kNone);
  EXPECT_EQ(core.pending_tokens(), 6);
  EXPECT_EQ(core.Written(true), Step::kWrite);
  EXPECT_EQ(core.writing(), "bc");
  EXPECT_EQ(core.pending_tokens(), 5);
  EXPECT_EQ(core.Written(true), Step::kNone);
  EXPECT_EQ(core.pending_tokens(), 0);
}

TEST(StreamCore, MessagesThatCannotMergeKeepTheirOrder) {
  Core core(Merge);
  EXPECT_EQ(core.Push("!started", 0), Step::kWrite);
  core.Push("a", 1);
  core.Push("b", 1);
  core.Push("!finished", 0);
  EXPECT_EQ(core.End(), Step::kNone);
  EXPECT_EQ(core.Written(true), Step::kWrite);
  EXPECT_EQ(core.writing(), "ab");
  EXPECT_EQ(core.Written(true), Step::kWrite);
  EXPECT_EQ(core.writing(), "!finished");
  EXPECT_EQ(core.Written(true), Step::kFinish);
}

TEST(StreamCore, EndWithoutMessagesFinishesOnce) {
  Core core(Merge);
  EXPECT_EQ(core.End(), Step::kFinish);
  EXPECT_EQ(core.End(), Step::kNone);
  EXPECT_EQ(core.Cancel(), Step::kNone);
  EXPECT_EQ(core.Push("late", 1), Step::kNone);
  EXPECT_EQ(core.pending_tokens(), 0);
}

TEST(StreamCore, CancelWaitsForTheWriteInFlightAndDropsTheRest) {
  Core core(Merge);
  core.Push("a", 1);
  core.Push("b", 4);
  EXPECT_EQ(core.Cancel(), Step::kNone);
  EXPECT_EQ(core.pending_tokens(), 1);
  EXPECT_EQ(core.Written(false), Step::kFinish);
  EXPECT_EQ(core.pending_tokens(), 0);
}

TEST(StreamCore, AFailedWriteEndsTheStream) {
  Core core(Merge);
  core.Push("a", 1);
  core.Push("b", 1);
  EXPECT_EQ(core.Written(false), Step::kFinish);
}

// A transport of one thread that completes writes, as gRPC's threads do.
class Transport final {
 public:
  explicit Transport(Core* core) : core_(core), thread_([this] { Loop(); }) {}

  void Do(Step step) {
    if (step == Step::kNone) return;
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(todo_, Step::kNone) << "two steps at once";
    todo_ = step;
    changed_.notify_all();
  }
  // Waits for the stream's end; everything that was written.
  std::string Join() {
    thread_.join();
    return written_;
  }

 private:
  void Loop() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return todo_ != Step::kNone; });
      if (todo_ == Step::kFinish) return;
      todo_ = Step::kNone;
      lock.unlock();
      written_ += core_->writing();
      Do(core_->Written(true));
    }
  }

  Core* const core_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Step todo_ = Step::kNone;
  std::string written_;
  std::thread thread_;
};

constexpr int kPushes = 200;

// Three threads push their letter; `cancel` ends the stream in the middle.
std::string RunProducers(bool cancel) {
  Core core(Merge);
  Transport transport(&core);
  std::vector<std::thread> producers;
  for (const char name : {'a', 'b', 'c'}) {
    producers.emplace_back([&core, &transport, name, cancel] {
      for (int i = 0; i < kPushes; ++i) {
        transport.Do(core.Push(std::string(1, name), 1));
        if (cancel && name == 'a' && i == kPushes / 2) transport.Do(core.Cancel());
      }
    });
  }
  for (std::thread& producer : producers) producer.join();
  transport.Do(core.End());
  const std::string written = transport.Join();
  EXPECT_EQ(core.pending_tokens(), 0);
  return written;
}

TEST(StreamCore, NothingIsLostOrDoubledUnderThreads) {
  for (int round = 0; round < 50; ++round) {
    const std::string written = RunProducers(/*cancel=*/false);
    for (const char name : {'a', 'b', 'c'}) {
      ASSERT_EQ(std::count(written.begin(), written.end(), name), kPushes) << name;
    }
  }
}

TEST(StreamCore, ACancelUnderThreadsFinishesExactlyOnce) {
  for (int round = 0; round < 50; ++round) {
    const std::string written = RunProducers(/*cancel=*/true);
    ASSERT_LE(written.size(), 3U * kPushes);
  }
}

}  // namespace
}  // namespace tandem
