#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/model/weights.h"
#include "common/rpc/stop_signals.h"
#include "services/verifier/engine_options.h"
#include "services/verifier/handoff.h"

namespace tandem {

// What the flags of a verifier process say.
struct VerifierOptions {
  std::string model;              // folder or checkpoint file, or synthetic:SIZE
  double synthetic_zeros = 0.90;  // of a synthetic model; see SyntheticModel
  std::string address = "127.0.0.1:0";
  std::string metrics_address;
  std::string ready_file;
  std::string backend = "auto";  // as OpenBackend
  int threads = 0;
  bool batch_invariant = true;
  WeightsOptions weights;
  WeightFormat draft_weights = WeightFormat::kBf16;  // of a drafter in this process
  Handoff handoff = Handoff::kAuto;
  std::string draft_socket;
  std::string mtp_path = "auto";
  bool mtp_force = false;
  int max_tokens = 0;  // of a reply
  absl::Duration max_request_time = absl::Hours(1);
  absl::Duration drain_timeout = absl::Seconds(30);
  absl::Duration stall_limit = absl::Seconds(30);  // without progress: not alive
  EngineOptions engine;
};

// Loads the model, serves until a stop signal or a Drain call has been obeyed, and returns. Errors
// of the start-up name what was wrong and what would be right.
absl::Status RunVerifier(const VerifierOptions& options, StopSignals& signals);

}  // namespace tandem
