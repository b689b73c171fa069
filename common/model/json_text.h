#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// The largest JSON text that is parsed, in bytes: a checkpoint of 3,000 tensors needs about 0.4 MB.
inline constexpr size_t kMaxJsonBytes = size_t{16} << 20;

// Parses one JSON object. INVALID_ARGUMENT, beginning with `file`, for anything else, for nesting
// beyond 16 levels, for a key that an object holds twice, and for a text beyond kMaxJsonBytes.
// Never throws.
absl::StatusOr<nlohmann::json> ParseJsonObject(absl::string_view text, const std::string& file);

// Reads and parses a file.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

}  // namespace tandem
