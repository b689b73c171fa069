#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/model/config.h"
#include "common/model/weights_source.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// What weights are rounded to while they are loaded. Embedding, low-rank factors, vectors and norms
// stay as they are: they are small, and more sensitive.
struct WeightsOptions {
  // Of the six large matrices of a layer: receptance, key, value and output of the time mix, key
  // and value of the channel mix.
  WeightFormat matrices = WeightFormat::kBf16;
  WeightFormat head = WeightFormat::kBf16;
};

// The base model in backend memory, immutable after Load. The LN0(emb) table and the head lie in
// exported memory so that a drafter process can map them read-only instead of holding a copy.
class ModelWeights final {
 public:
  static absl::StatusOr<std::unique_ptr<ModelWeights>> Load(Backend* backend,
                                                            const WeightsSource& source,
                                                            const WeightsOptions& options = {});
  ~ModelWeights();

  Backend* backend() const;
  const ModelConfig& config() const;
  uint64_t hash() const;            // content hash of the source
  const std::string& name() const;  // model name, see WeightsSource
  const WeightsOptions& options() const;

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
