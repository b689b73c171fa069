// Stream words on a GPU: queues that wait for each other, and waits that are released.

#include <chrono>
#include <future>

#include "gtest/gtest.h"
#include "tests/gpu/on_device.h"

namespace tandem {
namespace {

class WordsCudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (first_ == nullptr) GTEST_SKIP() << "no CUDA device";
    ASSERT_TRUE(first_->has_words());
    word_ = static_cast<uint32_t*>(first_->Allocate(sizeof(uint32_t)));
    mark_ = static_cast<int*>(first_->Allocate(sizeof(int)));
  }

  int Mark() {
    int mark = -1;
    second_->CopyOut(&mark, mark_, sizeof(mark));
    second_->Wait();
    return mark;
  }

  const std::unique_ptr<Backend> first_ = CudaOrNull(), second_ = CudaOrNull();
  uint32_t* word_ = nullptr;
  int* mark_ = nullptr;
};

TEST_F(WordsCudaTest, WhatFollowsAWaitComesAfterTheWrite) {
  const int one = 1;
  first_->WaitWord(word_, 3);
  first_->CopyIn(mark_, &one, sizeof(one));
  second_->WriteWord(word_, 2);
  EXPECT_EQ(Mark(), 0);
  second_->WriteWord(word_, 3);
  first_->Wait();
  EXPECT_EQ(Mark(), 1);
}

TEST_F(WordsCudaTest, ValuesGoOnAfterTheLargest) {
  first_->WriteWord(word_, 0xFFFFFFFEu);
  for (uint32_t value : {0xFFFFFFFFu, 0u, 1u}) {
    const int mark = static_cast<int>(value + 10);
    first_->WaitWord(word_, value);
    first_->CopyIn(mark_, &mark, sizeof(mark));
    EXPECT_NE(Mark(), mark);
    second_->WriteWord(word_, value);
    first_->Wait();
    EXPECT_EQ(Mark(), mark);
  }
}

TEST_F(WordsCudaTest, AReachedValueIsNotWaitedFor) {
  first_->WriteWord(word_, 7);
  first_->WaitWord(word_, 5);
  first_->Wait();
  EXPECT_FALSE(first_->ReleaseWait());
}

TEST_F(WordsCudaTest, AReleaseEndsAPendingWaitWithinAMillisecond) {
  constexpr int kWaits = 1000;
  int in_time = 0;
  double longest = 0;
  for (uint32_t i = 1; i <= kWaits; ++i) {
    first_->WaitWord(word_, i);
    const auto start = std::chrono::steady_clock::now();
    auto released = std::async(std::launch::async, [this] { return first_->ReleaseWait(); });
    first_->Wait();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(released.get());
    longest = std::max(longest, took.count());
    in_time += took.count() < 1e-3;
  }
  std::printf("longest release: %.0f us\n", longest * 1e6);
  EXPECT_EQ(in_time, kWaits);
}

TEST_F(WordsCudaTest, StampsGoUp) {
  OnDevice device(*first_);
  const View<uint64_t> stamps = device.Out<uint64_t>(2);
  first_->Stamp(stamps.data);
  first_->Stamp(stamps.data + 1);
  const std::vector<uint64_t> read = device.Read(stamps);
  EXPECT_GT(read[0], 0u);
  EXPECT_LE(read[0], read[1]);
}

}  // namespace
}  // namespace tandem
