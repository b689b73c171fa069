#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/ipc/identity.h"

namespace tandem {

// What decides which drafts a sidecar gives. Its format and version are checked by whoever reads
// it.
struct SidecarTraits {
  std::string kind = {};
  int depth = 0;   // trained
  int window = 0;  // of its attention, keys
  int max_drafts = 0;
  std::string hash = {};  // over the weights
};

// What a verifier compares a drafter with.
struct VerifierFacts {
  ipc::Identity identity;
  std::string model;
  int layers = 0;
  int width = 0;
  int taps[2] = {-1, -1};
  SidecarTraits sidecar;  // the one that it was started with
};

// What a drafter says of itself and of its sidecar.
struct DrafterFacts {
  ipc::Identity identity;
  std::string base_model;
  int layers = 0;
  int width = 0;
  int taps[2] = {-1, -1};
  SidecarTraits sidecar;
  bool force = false;  // attach although the base model's name, its layers or the sidecar differ
  // Every mapping of this and of earlier epochs is closed.
  uint64_t closed_epoch = 0;
};

// A typed refusal: an upper-case word for programs, and what differs and what to do for people.
struct DraftRefusal {
  std::string reason;
  std::string message;
};

// The first difference that forbids an attachment; none: the two can share memory and the sidecar
// fits the model. A difference that `force` allows is logged.
std::optional<DraftRefusal> CheckDrafter(const VerifierFacts& verifier,
                                         const DrafterFacts& drafter);

}  // namespace tandem
