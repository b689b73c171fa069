#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/model/tensor_info.h"

namespace tandem {

struct SafetensorsContents {
  std::vector<TensorInfo> tensors;
  // The scheme in the JSON object under quant_meta of __metadata__, whose values are texts; empty
  // when there is none.
  std::string quant_scheme;
};

// Reads a .safetensors file that lies whole in memory: 8 bytes of header length, a JSON header of
// at most 16 MiB, then the data, which the tensors tile without overlap, hole or rest.
// INVALID_ARGUMENT beginning with `file`, naming the tensor.
absl::StatusOr<SafetensorsContents> ReadSafetensors(absl::Span<const uint8_t> bytes,
                                                    const std::string& file);

// The weight_map of a model.safetensors.index.json: tensor name -> file name. File names have no
// folder and end in .safetensors. INVALID_ARGUMENT beginning with `path`, NOT_FOUND when there is
// no such file.
absl::StatusOr<std::map<std::string, std::string>> ReadShardIndex(const std::string& path);

}  // namespace tandem
