#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/metrics/metrics.h"
#include "common/model/weights.h"
#include "services/verifier/draft_deadline.h"
#include "services/verifier/draft_port.h"
#include "services/verifier/handoff.h"

namespace tandem {

// Everything that the verifier has for drafting: a port for the engine and, where the drafter is
// another process, the service that it attaches to.
class DraftSetup final {
 public:
  struct Options {
    Handoff handoff = Handoff::kAuto;
    // Unix socket that serves DraftService, mode 0600; empty: no drafter process can attach. The
    // descriptors pass through a second socket beside it, <socket>.fds.
    std::string socket;
    const MtpFile* sidecar = nullptr;  // null: no drafting
    std::string device_uuid;           // of the backend's GPU; empty on the CPU
    bool mps = false;                  // its contexts are shared by an MPS server
    // A second backend on the same device, with a queue of its own, for the probe of device mode.
    std::function<absl::StatusOr<std::unique_ptr<Backend>>()> make_backend;
    WeightFormat draft_weights = WeightFormat::kBf16;  // of a drafter in this process
    int slots = 0;
    int max_lanes = 0;  // of a pass
    int max_rows = 0;   // of a pass
    // floor_seconds 0: 2 ms on a GPU, which also gets more cold rounds, 50 ms on the CPU, whose
    // cores all processes share.
    DraftDeadline::Options deadline = {.floor_seconds = 0};
    double lease_seconds = 5;
  };

  // FAILED_PRECONDITION or the system's error when a forced mode cannot work; kAuto takes the next
  // best and says why in the status. On the thread that uses the weights' backend; everything
  // passed in must outlive the set-up.
  static absl::StatusOr<std::unique_ptr<DraftSetup>> Create(const Options& options,
                                                            const ModelWeights* weights,
                                                            VerifierMetrics* metrics);
  // Sends the drafter away and waits, 2 s at most, until it has closed its mappings.
  ~DraftSetup();

  DraftPort* port() const;
  // Thread-safe.
  HandoffStatus status() const;
  // Sends the drafter away and lets no other attach. After the last request; thread-safe.
  void Drain();

  struct Impl;

 private:
  explicit DraftSetup(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
