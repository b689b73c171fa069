#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/tensor_info.h"

namespace tandem {

struct PthContents {
  std::vector<TensorInfo> tensors;  // in the order of the file; bytes point into the archive
  std::string quant_scheme;         // quant_meta["scheme"], or empty
};

// Reads a torch.save archive (<root>/data.pkl, <root>/data/<n>, <root>/byteorder) that holds one
// flat dictionary of tensors. The entries `meta` and `quant_meta` may be plain values.
// INVALID_ARGUMENT beginning with `file` for everything else.
absl::StatusOr<PthContents> ReadPth(absl::Span<const uint8_t> archive, const std::string& file);

}  // namespace tandem
