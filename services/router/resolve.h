#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// Every address of "host:port" as "1.2.3.4:port" or "[::1]:port", sorted; "unix:path" and numeric
// addresses stay as they are. INVALID_ARGUMENT where there is no port, UNAVAILABLE where the name
// has no address now. Blocks on DNS.
absl::StatusOr<std::vector<std::string>> ResolveTarget(absl::string_view target);

}  // namespace tandem
