#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tandem {

// Turns SIGTERM and SIGINT into something to wait for. Constructed first in main: the signals are
// blocked in the calling thread and in every thread started afterwards.
class StopSignals final {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // True when a signal came, or Raise or Wake was called, within `timeout`; consumes one signal or
  // Raise, and every Wake.
  enum class Event { kTimeout, kSignal, kWake };
  Event Wait(absl::Duration timeout);

  // As a signal, from any thread.
  void Raise();
  // Ends the current or next Wait without being a signal.
  void Wake();

 private:
  int signal_fd_;
  int raise_fd_;
  int wake_fd_;
};

}  // namespace tandem
