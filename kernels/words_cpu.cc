#include "kernels/words_cpu.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>

namespace tandem {
namespace {

constexpr auto kSpin = std::chrono::microseconds(20);

bool Reached(uint32_t seen, uint32_t value) { return static_cast<int32_t>(seen - value) >= 0; }

uint32_t Seen(uint32_t* word) { return std::atomic_ref(*word).load(std::memory_order_acquire); }

void Wake(uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

void BlockUntil(uint32_t* word, uint32_t value) {
  const auto spin_end = std::chrono::steady_clock::now() + kSpin;
  for (uint32_t seen = Seen(word); !Reached(seen, value); seen = Seen(word)) {
    if (std::chrono::steady_clock::now() < spin_end) continue;
    syscall(SYS_futex, word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

}  // namespace

void WordsCpu::Wait(uint32_t* word, uint32_t value) {
  {
    const std::lock_guard lock(mutex_);
    word_ = word;
    value_ = value;
  }
  BlockUntil(word, value);
  const std::lock_guard lock(mutex_);
  word_ = nullptr;
}

void WordsCpu::Write(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
  Wake(word);
}

bool WordsCpu::Release() {
  const std::lock_guard lock(mutex_);
  if (word_ == nullptr) return false;
  std::atomic_ref word(*word_);
  uint32_t seen = word.load(std::memory_order_acquire);
  while (!Reached(seen, value_)) {
    if (word.compare_exchange_weak(seen, value_)) {
      Wake(word_);
      return true;
    }
  }
  return false;
}

}  // namespace tandem
