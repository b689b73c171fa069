#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tandem {

// Where the drafter runs and how rounds reach it.
enum class Handoff { kAuto, kDevice, kHost, kInProcess };

// "auto", "device", "host" or "inprocess"; else INVALID_ARGUMENT.
absl::StatusOr<Handoff> ParseHandoff(const std::string& text);

// For the status of a model, the log and the metrics.
struct HandoffStatus {
  bool attached = false;  // a drafter answers
  std::string mode;       // "device", "host", "inprocess" or "none"
  std::string reason;     // why this mode
  std::string sidecar;
  int depth = 0;       // trained depth
  int max_drafts = 0;  // most drafts per round
  // Of the last attachment, both directions, without the drafter's work; 0 before the first.
  double round_trip_seconds = 0;  // median
  double round_trip_p99_seconds = 0;
};

}  // namespace tandem
