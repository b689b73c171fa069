#pragma once

#include <string>

#include "absl/status/status.h"

namespace tandem {

// What a process tells whoever started it, once it serves.
struct ReadyFile {
  std::string path = {};     // empty: none is written
  std::string process = {};  // "router", "verifier" or "drafter"
  std::string address = {};  // empty: it serves none
  int port = 0;              // of the address; 0 for a unix socket and without an address
  std::string metrics_address = {};
};

// Removes what an earlier process left at `path`, so that nobody reads it as this one's, and finds
// out whether a file can be written there; at the start, so that a process does not come up without
// anybody knowing. An error names the path.
absl::Status PrepareReadyFile(const std::string& path);

// Writes {"process", "pid", "address", "port", "metrics_address"} as one JSON object, at once or
// not at all. An error names the path.
absl::Status WriteReadyFile(const ReadyFile& file);

}  // namespace tandem
