#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/config.h"
#include "common/model/weights_source.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// What weights are rounded to while they are loaded; without a value they stay as the file has
// them, and what the file has quantised stays so anyway: another format is refused. Embedding,
// low-rank factors, vectors and norms are never rounded: they are small, and more sensitive.
struct WeightsOptions {
  // Of the six large matrices of a layer: receptance, key, value and output of the time mix, key
  // and value of the channel mix.
  std::optional<WeightFormat> matrices;
  std::optional<WeightFormat> head;
  // Those of the six that are Fp8 round their inputs to it as well; see Matrix::rounded_inputs. At
  // least one has to be.
  bool rounded_inputs = false;
};

// The base model in backend memory, immutable after Load. The LN0(emb) table and the head lie in
// exported memory so that a drafter process can map them read-only instead of holding a copy.
class ModelWeights final {
 public:
  // INVALID_ARGUMENT, naming the matrix, where `options` want another format than the file has
  // quantised it to. RESOURCE_EXHAUSTED, saying how much memory was needed for what and which flags
  // lower it, when the backend has too little.
  static absl::StatusOr<std::unique_ptr<ModelWeights>> Load(Backend* backend,
                                                            const WeightsSource& source,
                                                            const WeightsOptions& options = {});
  // Backend memory that Load asks for.
  struct Bytes {
    size_t layers = 0;
    size_t embedding = 0;
    size_t head = 0;
    size_t total() const { return layers + embedding + head; }
  };
  static Bytes Measure(Backend* backend, const WeightsSource& source,
                       const WeightsOptions& options);
  ~ModelWeights();

  Backend* backend() const;
  const ModelConfig& config() const;
  uint64_t hash() const;            // content hash of the source
  const std::string& name() const;  // model name, see WeightsSource
  // The formats in memory: "fp8", "bf16+fp8" where layers or matrices differ, "fp8, head int8"
  // where the head is not bf16.
  std::string FormatText() const;

  const float* embedding() const;  // [V, C] LN0(emb)
  const Matrix& head() const;      // [V, C]
  const ExportHandle& embedding_handle() const;
  const ExportHandle& head_handle() const;

  struct Layers;  // defined in weights.cc's internal header, read by Rwkv7
  const Layers& layers() const;

  // From parts that are in backend memory already.
  struct Parts;  // in weights_layers.h
  static std::unique_ptr<ModelWeights> Of(Parts parts);

 private:
  struct Impl;
  explicit ModelWeights(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
