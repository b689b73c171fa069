#include "common/ipc/word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace tandem::ipc {
namespace {

constexpr double kLongestWait = 60;
constexpr auto kSpin = std::chrono::microseconds(20);
// A stop condition lives in one process, the futex in both: sleeping in slices bounds how late it
// is seen.
constexpr auto kSlice = std::chrono::milliseconds(100);

// std::atomic::wait is private to a process with this library; the plain futex call is not.
uint32_t* FutexAddress(const Word& word) {
  return reinterpret_cast<uint32_t*>(const_cast<std::atomic<uint64_t>*>(&word.value));
}

void SleepWhile(const Word& word, uint32_t low, Clock::time_point until) {
  const auto since_epoch = until.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
  timespec absolute = {};
  absolute.tv_sec = seconds.count();
  absolute.tv_nsec =
      std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch - seconds).count();
  syscall(SYS_futex, FutexAddress(word), FUTEX_WAIT_BITSET, low, &absolute, nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Clock::time_point After(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, kLongestWait)));
}

void Publish(Word& word, uint64_t value) {
  word.value.store(value, std::memory_order_release);
  Wake(word);
}

void Wake(Word& word) {
  syscall(SYS_futex, FutexAddress(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

WaitResult WaitAtLeast(const Word& word, uint64_t value, Clock::time_point deadline,
                       absl::FunctionRef<bool()> stopped) {
  const Clock::time_point spin_end = std::min(deadline, Clock::now() + kSpin);
  for (;;) {
    const uint64_t seen = word.value.load(std::memory_order_acquire);
    if (seen >= value) return WaitResult::kReached;
    if (stopped()) return WaitResult::kStopped;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return WaitResult::kDeadline;
    if (now < spin_end) {
      Pause();
      continue;
    }
    SleepWhile(word, static_cast<uint32_t>(seen), std::min(deadline, now + kSlice));
  }
}

}  // namespace tandem::ipc
