#include "common/model/weights.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/weights_layers.h"

namespace tandem {
namespace {

constexpr double kEmbeddingNormEps = 1e-5;
constexpr size_t kAlignment = 64;

size_t Align(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

absl::Status NoMemory(Backend* backend, absl::string_view what, size_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrFormat("%s need %.1f MiB of %s memory, which is not available", what,
                      static_cast<double>(bytes) / (1 << 20), backend->name()));
}

// Lays the weights of all layers out in one piece of backend memory. Walked twice over the same
// names: without memory it only measures, with memory it fills.
class Arena final {
 public:
  Arena(Backend* backend, const WeightsSource& source, void* memory)
      : backend_(backend), source_(source), memory_(static_cast<uint8_t*>(memory)) {}

  size_t bytes() const { return used_; }

  // The named vectors one after the other.
  View<const float> Vectors(const std::vector<std::string>& names) {
    size_t count = 0;
    for (const std::string& name : names) count += Elements(name);
    uint8_t* to = Take(count * sizeof(float));
    if (to == nullptr) return {};
    float* next = reinterpret_cast<float*>(to);
    for (const std::string& name : names) {
      const std::vector<float> values = source_.ReadFp32(name);
      backend_->CopyIn(next, values.data(), values.size() * sizeof(float));
      next += values.size();
    }
    return {reinterpret_cast<const float*>(to), count};
  }
  View<const float> Vector(const std::string& name) { return Vectors({name}); }

  // A matrix stored [outputs, inputs].
  Matrix Linear(const std::string& name, bool sparse_inputs = false) {
    const auto [rows, cols] = Axes(name);
    return Pack(name, {.rows = rows, .cols = cols, .sparse_inputs = sparse_inputs},
                [&](absl::Span<uint16_t> to) { source_.CopyBf16(name, to); });
  }

  // A factor stored [inputs, outputs].
  Matrix Factor(const std::string& name) {
    const auto [cols, rows] = Axes(name);
    return Pack(name, {.rows = rows, .cols = cols},
                [&, rows = rows, cols = cols](absl::Span<uint16_t> to) {
                  std::vector<uint16_t> stored(to.size());
                  source_.CopyBf16(name, absl::MakeSpan(stored));
                  for (size_t i = 0; i < static_cast<size_t>(cols); ++i) {
                    for (size_t o = 0; o < static_cast<size_t>(rows); ++o) {
                      to[o * cols + i] = stored[i * rows + o];
                    }
                  }
                });
  }

 private:
  std::pair<int, int> Axes(const std::string& name) const {
    const std::vector<int64_t>& shape = source_.Shape(name);
    CHECK_EQ(shape.size(), 2u) << name;
    return {static_cast<int>(shape[0]), static_cast<int>(shape[1])};
  }
  size_t Elements(const std::string& name) const {
    size_t count = 1;
    for (const int64_t axis : source_.Shape(name)) count *= static_cast<size_t>(axis);
    return count;
  }
  uint8_t* Take(size_t bytes) {
    uint8_t* at = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += Align(bytes);
    return at;
  }
  template <class Fill>
  Matrix Pack(const std::string& name, Matrix matrix, const Fill& fill) {
    uint8_t* to = Take(backend_->PackedBytes(matrix));
    if (to == nullptr) return {};
    std::vector<uint16_t> host(Elements(name));
    fill(absl::MakeSpan(host));
    backend_->Pack(to, matrix, host.data());
    matrix.data = to;
    return matrix;
  }

  Backend* backend_;
  const WeightsSource& source_;
  uint8_t* memory_;
  size_t used_ = 0;
};

LayerWeights PlaceLayer(Arena& arena, int index) {
  const std::string block = absl::StrCat("blocks.", index, ".");
  const std::string att = block + "att.";
  LayerWeights layer;
  layer.ln1_weight = arena.Vector(block + "ln1.weight");
  layer.ln1_bias = arena.Vector(block + "ln1.bias");
  layer.ln2_weight = arena.Vector(block + "ln2.weight");
  layer.ln2_bias = arena.Vector(block + "ln2.bias");
  layer.att_mix =
      arena.Vectors({att + "x_r", att + "x_w", att + "x_k", att + "x_v", att + "x_a", att + "x_g"});
  layer.ffn_mix = arena.Vector(block + "ffn.x_k");
  layer.w0 = arena.Vector(att + "w0");
  layer.a0 = arena.Vector(att + "a0");
  layer.k_k = arena.Vector(att + "k_k");
  layer.k_a = arena.Vector(att + "k_a");
  layer.r_k = arena.Vector(att + "r_k");
  layer.ln_x_weight = arena.Vector(att + "ln_x.weight");
  layer.ln_x_bias = arena.Vector(att + "ln_x.bias");
  layer.receptance = arena.Linear(att + "receptance.weight");
  layer.key = arena.Linear(att + "key.weight");
  layer.value = arena.Linear(att + "value.weight");
  layer.w1 = arena.Factor(att + "w1");
  layer.a1 = arena.Factor(att + "a1");
  layer.g1 = arena.Factor(att + "g1");
  layer.w2 = arena.Factor(att + "w2");
  layer.a2 = arena.Factor(att + "a2");
  layer.g2 = arena.Factor(att + "g2");
  if (index > 0) {
    layer.v0 = arena.Vector(att + "v0");
    layer.v1 = arena.Factor(att + "v1");
    layer.v2 = arena.Factor(att + "v2");
  }
  layer.output = arena.Linear(att + "output.weight");
  layer.ffn_key = arena.Linear(block + "ffn.key.weight");
  layer.ffn_value = arena.Linear(block + "ffn.value.weight", /*sparse_inputs=*/true);
  return layer;
}

ModelWeights::Layers PlaceLayers(Arena& arena, const ModelConfig& config) {
  ModelWeights::Layers all;
  for (int i = 0; i < config.layers; ++i) all.layers.push_back(PlaceLayer(arena, i));
  all.ln_out_weight = arena.Vector("ln_out.weight");
  all.ln_out_bias = arena.Vector("ln_out.bias");
  return all;
}

// LN0 of one embedding row, in place.
void NormEmbeddingRow(absl::Span<float> row, absl::Span<const float> weight,
                      absl::Span<const float> bias) {
  const double count = static_cast<double>(row.size());
  double mean = 0.0;
  for (const float value : row) mean += value;
  mean /= count;
  double variance = 0.0;
  for (const float value : row) variance += (value - mean) * (value - mean);
  const double scale = 1.0 / std::sqrt(variance / count + kEmbeddingNormEps);
  for (size_t c = 0; c < row.size(); ++c) {
    row[c] = static_cast<float>((row[c] - mean) * scale * weight[c] + bias[c]);
  }
}

std::vector<float> EmbeddingTable(const WeightsSource& source) {
  std::vector<float> table = source.ReadFp32("emb.weight");
  if (source.config().embedding_normed) return table;
  const std::vector<float> weight = source.ReadFp32("blocks.0.ln0.weight");
  const std::vector<float> bias = source.ReadFp32("blocks.0.ln0.bias");
  const size_t width = static_cast<size_t>(source.config().width);
  for (size_t at = 0; at < table.size(); at += width) {
    NormEmbeddingRow(absl::MakeSpan(table).subspan(at, width), weight, bias);
  }
  return table;
}

}  // namespace

struct ModelWeights::Impl {
  Backend* backend = nullptr;
  ModelConfig config;
  uint64_t hash = 0;
  std::string name;
  const float* embedding = nullptr;
  Matrix head;
  ExportHandle embedding_handle;
  ExportHandle head_handle;
  Layers layers;

  absl::Status LoadLayers(const WeightsSource& source);
  absl::Status LoadEmbedding(const WeightsSource& source);
  absl::Status LoadHead(const WeightsSource& source);
};

absl::Status ModelWeights::Impl::LoadLayers(const WeightsSource& source) {
  Arena measure(backend, source, nullptr);
  PlaceLayers(measure, config);
  void* memory = backend->Allocate(measure.bytes());
  if (memory == nullptr) return NoMemory(backend, "the weights of the layers", measure.bytes());
  Arena arena(backend, source, memory);
  layers = PlaceLayers(arena, config);
  return absl::OkStatus();
}

absl::Status ModelWeights::Impl::LoadEmbedding(const WeightsSource& source) {
  const size_t bytes = static_cast<size_t>(config.vocab) * config.width * sizeof(float);
  void* memory = backend->AllocateExported(bytes, &embedding_handle);
  if (memory == nullptr) return NoMemory(backend, "the embedding table's shared pages", bytes);
  const std::vector<float> table = EmbeddingTable(source);
  backend->CopyIn(memory, table.data(), bytes);
  embedding = static_cast<const float*>(memory);
  if (!backend->SealForReaders(embedding_handle)) {
    return absl::InternalError("the shared embedding table could not be sealed against writing");
  }
  return absl::OkStatus();
}

absl::Status ModelWeights::Impl::LoadHead(const WeightsSource& source) {
  head = {.rows = config.vocab, .cols = config.width};
  const size_t bytes = backend->PackedBytes(head);
  void* memory = backend->AllocateExported(bytes, &head_handle);
  if (memory == nullptr) return NoMemory(backend, "the head's shared pages", bytes);
  std::vector<uint16_t> host(static_cast<size_t>(config.vocab) * config.width);
  source.CopyBf16("head.weight", absl::MakeSpan(host));
  backend->Pack(memory, head, host.data());
  head.data = memory;
  if (!backend->SealForReaders(head_handle)) {
    return absl::InternalError("the shared head could not be sealed against writing");
  }
  return absl::OkStatus();
}

ModelWeights::ModelWeights(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelWeights::~ModelWeights() = default;

absl::StatusOr<std::unique_ptr<ModelWeights>> ModelWeights::Load(Backend* backend,
                                                                 const WeightsSource& source) {
  auto impl = std::make_unique<Impl>();
  impl->backend = backend;
  impl->config = source.config();
  impl->hash = source.content_hash();
  impl->name = source.name();
  RETURN_IF_ERROR(impl->LoadLayers(source));
  RETURN_IF_ERROR(impl->LoadEmbedding(source));
  RETURN_IF_ERROR(impl->LoadHead(source));
  return std::unique_ptr<ModelWeights>(new ModelWeights(std::move(impl)));
}

std::unique_ptr<ModelWeights> ModelWeights::Of(Parts parts) {
  auto impl = std::make_unique<Impl>();
  impl->backend = parts.backend;
  impl->config = parts.config;
  impl->hash = parts.hash;
  impl->name = std::move(parts.name);
  impl->embedding = parts.embedding;
  impl->head = parts.head;
  impl->embedding_handle = parts.embedding_handle;
  impl->head_handle = parts.head_handle;
  impl->layers = std::move(parts.layers);
  return std::unique_ptr<ModelWeights>(new ModelWeights(std::move(impl)));
}

Backend* ModelWeights::backend() const { return impl_->backend; }
const ModelConfig& ModelWeights::config() const { return impl_->config; }
uint64_t ModelWeights::hash() const { return impl_->hash; }
const std::string& ModelWeights::name() const { return impl_->name; }
const float* ModelWeights::embedding() const { return impl_->embedding; }
const Matrix& ModelWeights::head() const { return impl_->head; }
const ExportHandle& ModelWeights::embedding_handle() const { return impl_->embedding_handle; }
const ExportHandle& ModelWeights::head_handle() const { return impl_->head_handle; }
const ModelWeights::Layers& ModelWeights::layers() const { return impl_->layers; }

}  // namespace tandem
