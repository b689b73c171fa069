#pragma once

#include <chrono>
#include <cstdint>

namespace tandem {

// Nanoseconds of the clock that all processes of the machine share.
inline uint64_t ClockCpu() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace tandem
