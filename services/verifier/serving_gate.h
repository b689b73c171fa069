#pragma once

#include <atomic>
#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/status.h"
#include "services/verifier/engine.h"
#include "services/verifier/handoff.h"
#include "services/verifier/served_model.h"

namespace tandem {

// What the services answer from, once it exists. Everything outlives the calls.
struct ServingParts {
  Engine* engine = nullptr;
  const ServedModel* model = nullptr;
  const VocabularyFile* vocabulary = nullptr;
  std::function<HandoffStatus()> handoff = {};  // from any thread
};

// Closed while the model is loaded. Thread-safe.
class ServingGate final {
 public:
  void Open(const ServingParts* parts) { parts_ = parts; }

  // Null while closed.
  const ServingParts* parts() const { return parts_; }
  // UNAVAILABLE while closed.
  absl::StatusOr<const ServingParts*> Enter() const {
    const ServingParts* const parts = parts_;
    if (parts != nullptr) return parts;
    return RetryLaterError(absl::StatusCode::kUnavailable, "LOADING",
                           "the model is being loaded; try again later", absl::Seconds(1));
  }

 private:
  std::atomic<const ServingParts*> parts_{nullptr};
};

}  // namespace tandem
