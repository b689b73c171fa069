#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tandem {

// The sidecar folder that a setting selects: "auto" is `mtp` inside the model folder, or nothing
// when that folder does not exist; "off" is nothing; anything else is a path to a sidecar folder.
// NOT_FOUND, naming the path, when an explicit folder or its mtp.json is missing; INVALID_ARGUMENT
// for an empty setting.
absl::StatusOr<std::optional<std::string>> ResolveMtpPath(const std::string& setting,
                                                          const std::string& model_folder);

}  // namespace tandem
