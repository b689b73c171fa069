// Stream words of the CPU backend.
#include <atomic>
#include <chrono>
#include <thread>

#include "gmock/gmock.h"
#include "kernels/backend.h"

namespace tandem {
namespace {

class WordsTest : public ::testing::Test {
 protected:
  WordsTest() {
    ExportHandle handle;
    word_ = static_cast<uint32_t*>(backend_->AllocateExported(128, &handle));
    peer_word_ = static_cast<uint32_t*>(peer_->Import(handle, /*writable=*/true));
  }

  // Starts a wait on a thread of its own and gives it time to block.
  std::thread Waiting(uint32_t value) {
    over_ = false;
    std::thread thread([this, value] {
      backend_->WaitWord(word_, value);
      over_ = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return thread;
  }

  const std::unique_ptr<Backend> backend_ = MakeCpuBackend(1), peer_ = MakeCpuBackend(1);
  uint32_t* word_ = nullptr;       // as backend_ sees it
  uint32_t* peer_word_ = nullptr;  // as peer_ sees it
  std::atomic<bool> over_{false};
};

TEST_F(WordsTest, WaitsForThePeersWrite) {
  ASSERT_TRUE(backend_->has_words());
  std::thread thread = Waiting(3);
  peer_->WriteWord(peer_word_, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(over_);
  peer_->WriteWord(peer_word_, 3);
  thread.join();
  EXPECT_TRUE(over_);
}

TEST_F(WordsTest, AReachedValueIsNotWaitedFor) {
  peer_->WriteWord(peer_word_, 7);
  backend_->WaitWord(word_, 7);
  backend_->WaitWord(word_, 1);
  EXPECT_FALSE(backend_->ReleaseWait());
}

TEST_F(WordsTest, ValuesGoOnAfterTheLargest) {
  peer_->WriteWord(peer_word_, 0xFFFFFFFEu);
  for (const uint32_t value : {0xFFFFFFFFu, 0u, 1u}) {
    std::thread thread = Waiting(value);
    EXPECT_FALSE(over_) << value;
    peer_->WriteWord(peer_word_, value);
    thread.join();
  }
}

TEST_F(WordsTest, AReleaseEndsThePendingWaitOnly) {
  EXPECT_FALSE(backend_->ReleaseWait());
  std::thread thread = Waiting(4);
  EXPECT_TRUE(backend_->ReleaseWait());
  thread.join();
  EXPECT_EQ(*word_, 4u);
  EXPECT_FALSE(backend_->ReleaseWait());
  // The next wait is not released with it.
  thread = Waiting(5);
  EXPECT_FALSE(over_);
  peer_->WriteWord(peer_word_, 5);
  thread.join();
}

TEST_F(WordsTest, StampsGoUp) {
  uint64_t first = 0, second = 0;
  backend_->Stamp(&first);
  peer_->Stamp(&second);
  EXPECT_GT(first, 0u);
  EXPECT_LE(first, second);
}

}  // namespace
}  // namespace tandem
