#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tandem::ipc {

using Clock = std::chrono::steady_clock;

// So long from now, at most a minute: an enormous deadline must not overflow the clock.
Clock::time_point After(double seconds);
inline double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// A counter in memory shared by two processes, alone in a pair of cache lines. One side writes it
// and it only grows. Zeroed memory is a valid Word.
struct alignas(128) Word {
  std::atomic<uint64_t> value;
};
static_assert(sizeof(Word) == 128);
static_assert(std::atomic<uint64_t>::is_always_lock_free);
// The futex lies on the low 32 bits.
static_assert(std::endian::native == std::endian::little);

enum class WaitResult { kReached, kDeadline, kStopped };

// Stores `value` and wakes the waiter; everything written before is visible to whoever sees the
// value.
void Publish(Word& word, uint64_t value);

// Makes a waiter look at its stop condition again.
void Wake(Word& word);

// Waits until the word is at least `value`: a short spin, then sleep. Returns kStopped at the
// latest 100 ms after `stopped` turns true (at once with Wake), kDeadline at `deadline`. A value
// that is reached already wins over both.
WaitResult WaitAtLeast(const Word& word, uint64_t value, Clock::time_point deadline,
                       absl::FunctionRef<bool()> stopped);

}  // namespace tandem::ipc
