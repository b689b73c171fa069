#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// RESOURCE_EXHAUSTED: what was to lie in the backend's memory, how large it is, and which flags
// make it smaller.
inline absl::Status NoMemory(const Backend& backend, absl::string_view what, size_t bytes,
                             absl::string_view remedy) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s need %.1f MiB of %s memory, which is not available; %s", what,
                      static_cast<double>(bytes) / (1 << 20), backend.name(), remedy));
}

// The same for what packing a matrix needs for a while, so many bytes a weight.
inline absl::Status NoMemoryToPack(const Backend& backend, absl::string_view name,
                                   const Matrix& shape, absl::string_view remedy,
                                   size_t weight_bytes = sizeof(uint16_t)) {
  return NoMemory(backend,
                  absl::StrCat("the weights of ", name, " [", shape.rows, ", ", shape.cols,
                               "], for the time of packing,"),
                  weight_bytes * static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.cols),
                  remedy);
}

}  // namespace tandem
