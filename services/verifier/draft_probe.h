#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ipc/channel.h"
#include "common/ipc/watchdog.h"
#include "kernels/backend.h"

namespace tandem {

// Seconds from one side to the other and back.
struct RoundTrip {
  double median = 0;
  double p99 = 0;
};

// ipc::kProbeRounds exchanges in host memory, at most 1 s in all; DEADLINE_EXCEEDED where the
// drafter does not answer.
absl::StatusOr<RoundTrip> ProbeHost(const ipc::VerifierChannel& channel);

// The same by stream words, on a queue of its own. One thread.
class DeviceProbe final {
 public:
  // Null when memory is short. `backend`, which has words, must outlive the probe.
  static std::unique_ptr<DeviceProbe> Create(Backend* backend);

  // Empties the words of the probe; before the drafter may look.
  void Prepare(const ipc::BlockView& view);
  // DEADLINE_EXCEEDED where the drafter does not answer within 1 s. INTERNAL where a wait that
  // nobody answers is not released, or on a GPU not within a millisecond.
  absl::StatusOr<RoundTrip> Run(const ipc::BlockView& view);

 private:
  DeviceProbe(Backend* backend, uint64_t* stamps)
      : backend_(backend), watchdog_(backend), stamps_(stamps) {}
  absl::Status Rescue(const ipc::BlockView& view);

  Backend* const backend_;
  ipc::Watchdog watchdog_;
  uint64_t* const stamps_;  // [2 * kProbeRounds], backend memory
};

}  // namespace tandem
