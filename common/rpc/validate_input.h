#pragma once

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/rpc/validate.h"

namespace tandem {

// Parts of a request that Generate and Tokenize share.

// OUT_OF_RANGE beyond limits.max_prompt_bytes.
absl::Status CheckTextSize(absl::string_view field, size_t size, const RequestLimits& limits);
// Roles, think mode, size of all contents together.
absl::Status CheckChat(const v1::ChatInput& chat, const RequestLimits& limits);

}  // namespace tandem
