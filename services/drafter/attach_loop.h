#pragma once

#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "services/drafter/attach_client.h"
#include "services/drafter/draft_session.h"

namespace tandem {

// Attaches to the verifier at a socket, drafts, and attaches again whenever that ends, with a
// back-off of 50 ms to 2 s: either side may start first and restart at any time.
class AttachLoop final {
 public:
  struct Options {
    std::string socket;
    SidecarFacts sidecar;
    BackendFactory make_backend;
    DrafterFactory make_drafter;
    std::string backend = "cpu";  // Backend::name() of what make_backend makes
    std::string device_uuid;      // of its GPU; empty on the CPU
    bool mps = false;             // its contexts are shared through an MPS server
    // Called once, when the verifier gave its first answer: an attachment, or a refusal.
    std::function<void()> on_first_answer;
  };
  AttachLoop(Options options, DrafterMetrics* metrics);

  // Until `stopped`, which is looked at at least every 100 ms: finishes the round, closes every
  // mapping, says so.
  void Run(absl::FunctionRef<bool()> stopped);

 private:
  absl::Status AttachOnce(absl::FunctionRef<bool()> stopped);
  absl::Status ServeOffer(AttachClient& client, const AttachOffer& offer,
                          absl::FunctionRef<bool()> stopped);
  void Answered();

  Options options_;
  DrafterMetrics* metrics_;
  uint64_t closed_epoch_ = 0;
  bool answered_ = false;
  bool served_ = false;  // the last attachment got as far as rounds
};

}  // namespace tandem
