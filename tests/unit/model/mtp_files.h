#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/unit/model/file_writers.h"

namespace tandem {

// A sound sidecar of width 64 for the tiny model (2 layers, vocabulary 48), as its two files hold
// it.
struct TinySidecar {
  nlohmann::json meta;
  std::vector<TestTensor> tensors;  // bf16, and draft_vocab [10] = 9, 8, ... 0
};

TinySidecar MakeTinySidecar();

// Writes mtp.json and mtp.safetensors.
void WriteSidecar(const TempFolder& folder, const TinySidecar& sidecar);

}  // namespace tandem
