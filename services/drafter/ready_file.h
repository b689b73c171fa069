#pragma once

#include <string>

#include "absl/status/status.h"

namespace tandem {

// Writes {"process", "pid", "address", "port", "metrics_address"} as one JSON object, at once or
// not at all; the drafter serves no address. Nothing for an empty path.
absl::Status WriteReadyFile(const std::string& path, const std::string& metrics_address);

}  // namespace tandem
