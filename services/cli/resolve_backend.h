#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace tandem::cli {

// What a service with --backend=`wanted` would compute on now: "cpu" or "cuda". A group asks once,
// so that a process that comes back after a fault of the GPU waits for it instead of taking the
// CPU, whose arithmetic is another. Tried in a child process, which leaves the GPU behind; needs a
// process without other threads that hold locks. FAILED_PRECONDITION where it cannot be opened.
absl::StatusOr<std::string> ResolveBackend(const std::string& wanted);

}  // namespace tandem::cli
