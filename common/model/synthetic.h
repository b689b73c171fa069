#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/model/config.h"
#include "common/model/weights.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// A model that nobody trained, for timing real sizes without a file: random weights from a seed,
// made in backend memory, whose activations have the magnitudes of a trained model's. Its text is
// noise.
struct SyntheticModel {
  ModelConfig config;
  std::string name;  // "synthetic-7.2b"
  // Of att.{receptance,key,value,output} and ffn.{key,value}; everything else stays bf16 or fp32.
  WeightFormat format = WeightFormat::kBf16;
  bool rounded_inputs = false;  // with Fp8, of those matrices
  WeightFormat head_format = WeightFormat::kBf16;
  double zero_share = 0.90;  // of a token's relu^2 activations, [0, 1); see ChannelMixKeySpread
  uint64_t seed = 1;
};

// Of size "2.9b", "7.2b", "13.3b" as RWKV-7 World has them, or "tiny", for tests. INVALID_ARGUMENT
// for another.
absl::StatusOr<SyntheticModel> SyntheticOfSize(absl::string_view size);

// Backend memory that MakeSynthetic asks for.
ModelWeights::Bytes MeasureSynthetic(Backend* backend, const SyntheticModel& model);

// The size that a model's name asks for, as in "synthetic:7.2b"; absent for the path of a real one.
std::optional<std::string> SyntheticSize(absl::string_view model);

// Of a checkpoint of that shape.
int64_t ParameterCount(const ModelConfig& config);

// RESOURCE_EXHAUSTED, saying how much memory was needed for what, when the backend has too little.
absl::StatusOr<std::unique_ptr<ModelWeights>> MakeSynthetic(Backend* backend,
                                                            const SyntheticModel& model);

}  // namespace tandem
