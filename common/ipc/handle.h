#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"

namespace tandem::ipc {

// The bytes by which another process maps exported memory of a GPU, for a message: exactly 64.
// Empty for memory of the CPU, whose file descriptor takes another way.
std::string HandleBytes(const ExportHandle& handle);

// The handle of GPU memory of `bytes` that came in a message. INVALID_ARGUMENT where `text` has not
// exactly 64 bytes.
absl::StatusOr<ExportHandle> HandleFrom(absl::string_view text, uint64_t bytes);

}  // namespace tandem::ipc
