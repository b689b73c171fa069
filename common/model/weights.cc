#include "common/model/weights.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/model/no_memory.h"
#include "common/model/weight_format.h"
#include "common/model/weights_layers.h"

namespace tandem {
namespace {

constexpr double kEmbeddingNormEps = 1e-5;
constexpr size_t kAlignment = 64;

size_t Align(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

constexpr char kSmaller[] =
    "use a smaller format with --weights or --head-weights, or lower --max-sequences";

// The format in memory of a matrix that `wanted` is asked for.
WeightFormat FormatOf(const WeightsSource& source, const std::string& name,
                      std::optional<WeightFormat> wanted) {
  const WeightFormat stored = source.format(name);
  return stored == WeightFormat::kBf16 ? wanted.value_or(stored) : stored;
}

absl::Status CheckFormat(const WeightsSource& source, const std::string& name,
                         absl::string_view flag, std::optional<WeightFormat> wanted) {
  const WeightFormat stored = source.format(name);
  if (!wanted || stored == *wanted || stored == WeightFormat::kBf16) return absl::OkStatus();
  const char* const asked = WeightFormatName(*wanted);
  return absl::InvalidArgumentError(absl::StrCat(
      source.path().checkpoint, ": tensor ", name, ": stored as ", WeightFormatName(stored),
      ", which --", flag, "=", asked, " does not change; leave --", flag,
      " out, or give the unquantised model, which is rounded to ", asked, " while it is loaded"));
}

// There must be matrices whose inputs are rounded.
absl::Status CheckRounding(const WeightsSource& source, const WeightsOptions& options) {
  if (!options.rounded_inputs) return absl::OkStatus();
  for (const std::string& name : source.names()) {
    if (name != "head.weight" && source.format(name) == WeightFormat::kFp8) return absl::OkStatus();
  }
  if (options.matrices == WeightFormat::kFp8) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--activations=fp8 needs matrices in fp8: --weights=fp8, or a file of them, which ",
      source.path().checkpoint, " is not"));
}

absl::Status CheckFormats(const WeightsSource& source, const WeightsOptions& options) {
  for (const std::string& name : source.names()) {
    if (name == "head.weight") {
      RETURN_IF_ERROR(CheckFormat(source, name, "head-weights", options.head));
    } else {
      RETURN_IF_ERROR(CheckFormat(source, name, "weights", options.matrices));
    }
  }
  return CheckRounding(source, options);
}

// A matrix stored [outputs, inputs], rounded or as it is, into backend memory.
absl::Status PackStored(Backend* backend, const WeightsSource& source, const std::string& name,
                        void* to, const Matrix& shape) {
  if (source.format(name) == WeightFormat::kBf16) {
    std::vector<uint16_t> host(static_cast<size_t>(shape.rows) * static_cast<size_t>(shape.cols));
    source.CopyBf16(name, absl::MakeSpan(host));
    if (backend->Pack(to, shape, host.data())) return absl::OkStatus();
    return NoMemoryToPack(*backend, name, shape, kSmaller);
  }
  const StoredCodes stored = source.Codes(name);
  if (backend->PackCodes(to, shape, stored.codes())) return absl::OkStatus();
  return NoMemoryToPack(*backend, name, shape, kSmaller, /*weight_bytes=*/1);
}

// Lays the weights of all layers out in one piece of backend memory. Walked twice over the same
// names: without memory it only measures, with memory it fills, up to the first failure.
class Arena final {
 public:
  Arena(Backend* backend, const WeightsSource& source, bool rounded_inputs, void* memory)
      : backend_(backend),
        source_(source),
        rounded_inputs_(rounded_inputs),
        memory_(static_cast<uint8_t*>(memory)) {}

  size_t bytes() const { return used_; }
  const absl::Status& status() const { return status_; }

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
  Matrix Linear(const std::string& name, std::optional<WeightFormat> wanted,
                bool sparse_inputs = false) {
    const auto [rows, cols] = Axes(name);
    Matrix matrix = {.format = FormatOf(source_, name, wanted),
                     .rows = rows,
                     .cols = cols,
                     .sparse_inputs = sparse_inputs};
    matrix.rounded_inputs = rounded_inputs_ && matrix.format == WeightFormat::kFp8;
    void* const to = Take(backend_->PackedBytes(matrix));
    if (to == nullptr) return {};
    status_.Update(PackStored(backend_, source_, name, to, matrix));
    matrix.data = to;
    return matrix;
  }

  // A factor stored [inputs, outputs].
  Matrix Factor(const std::string& name) {
    const auto [cols, rows] = Axes(name);
    Matrix matrix = {.rows = rows, .cols = cols};
    void* const to = Take(backend_->PackedBytes(matrix));
    if (to == nullptr) return {};
    std::vector<uint16_t> stored(Elements(name)), host(stored.size());
    source_.CopyBf16(name, absl::MakeSpan(stored));
    const size_t outputs = static_cast<size_t>(rows), inputs = static_cast<size_t>(cols);
    for (size_t i = 0; i < inputs; ++i) {
      for (size_t o = 0; o < outputs; ++o) host[o * inputs + i] = stored[i * outputs + o];
    }
    if (!backend_->Pack(to, matrix, host.data()))
      status_.Update(NoMemoryToPack(*backend_, name, matrix, kSmaller));
    matrix.data = to;
    return matrix;
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
    uint8_t* at = memory_ == nullptr || !status_.ok() ? nullptr : memory_ + used_;
    used_ += Align(bytes);
    return at;
  }

  Backend* backend_;
  const WeightsSource& source_;
  const bool rounded_inputs_;
  uint8_t* memory_;
  size_t used_ = 0;
  absl::Status status_;
};

LayerWeights PlaceLayer(Arena& arena, int index, std::optional<WeightFormat> format) {
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
  layer.receptance = arena.Linear(att + "receptance.weight", format);
  layer.key = arena.Linear(att + "key.weight", format);
  layer.value = arena.Linear(att + "value.weight", format);
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
  layer.output = arena.Linear(att + "output.weight", format);
  layer.ffn_key = arena.Linear(block + "ffn.key.weight", format);
  layer.ffn_value = arena.Linear(block + "ffn.value.weight", format, /*sparse_inputs=*/true);
  return layer;
}

ModelWeights::Layers PlaceLayers(Arena& arena, const ModelConfig& config,
                                 std::optional<WeightFormat> format) {
  ModelWeights::Layers all;
  for (int i = 0; i < config.layers; ++i) all.layers.push_back(PlaceLayer(arena, i, format));
  all.ln_out_weight = arena.Vector("ln_out.weight");
  all.ln_out_bias = arena.Vector("ln_out.bias");
  return all;
}

size_t EmbeddingBytes(const ModelConfig& config) {
  return static_cast<size_t>(config.vocab) * static_cast<size_t>(config.width) * sizeof(float);
}

Matrix HeadShape(const WeightsSource& source, const WeightsOptions& options) {
  return {.format = FormatOf(source, "head.weight", options.head),
          .rows = source.config().vocab,
          .cols = source.config().width};
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
  WeightsOptions options;
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
  Arena measure(backend, source, options.rounded_inputs, nullptr);
  PlaceLayers(measure, config, options.matrices);
  void* memory = backend->Allocate(measure.bytes());
  if (memory == nullptr)
    return NoMemory(*backend, "the weights of the layers", measure.bytes(),
                    "use a smaller format with --weights, or a smaller model");
  Arena arena(backend, source, options.rounded_inputs, memory);
  layers = PlaceLayers(arena, config, options.matrices);
  return arena.status();
}

absl::Status ModelWeights::Impl::LoadEmbedding(const WeightsSource& source) {
  const size_t bytes = EmbeddingBytes(config);
  void* memory = backend->AllocateExported(bytes, &embedding_handle);
  if (memory == nullptr)
    return NoMemory(*backend, "the embedding table's shared pages", bytes,
                    "leave it more with --weights of a smaller format");
  const std::vector<float> table = EmbeddingTable(source);
  backend->CopyIn(memory, table.data(), bytes);
  embedding = static_cast<const float*>(memory);
  if (!backend->SealForReaders(embedding_handle)) {
    return absl::InternalError("the shared embedding table could not be sealed against writing");
  }
  return absl::OkStatus();
}

absl::Status ModelWeights::Impl::LoadHead(const WeightsSource& source) {
  head = HeadShape(source, options);
  const size_t bytes = backend->PackedBytes(head);
  void* memory = backend->AllocateExported(bytes, &head_handle);
  if (memory == nullptr)
    return NoMemory(*backend, "the head's shared pages", bytes,
                    "use a smaller format with --head-weights or --weights");
  RETURN_IF_ERROR(PackStored(backend, source, "head.weight", memory, head));
  head.data = memory;
  if (!backend->SealForReaders(head_handle)) {
    return absl::InternalError("the shared head could not be sealed against writing");
  }
  return absl::OkStatus();
}

ModelWeights::Bytes ModelWeights::Measure(Backend* backend, const WeightsSource& source,
                                          const WeightsOptions& options) {
  Arena layers(backend, source, options.rounded_inputs, nullptr);
  PlaceLayers(layers, source.config(), options.matrices);
  return {.layers = layers.bytes(),
          .embedding = EmbeddingBytes(source.config()),
          .head = backend->PackedBytes(HeadShape(source, options))};
}

ModelWeights::ModelWeights(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelWeights::~ModelWeights() = default;

absl::StatusOr<std::unique_ptr<ModelWeights>> ModelWeights::Load(Backend* backend,
                                                                 const WeightsSource& source,
                                                                 const WeightsOptions& options) {
  RETURN_IF_ERROR(CheckFormats(source, options));
  auto impl = std::make_unique<Impl>();
  impl->backend = backend;
  impl->config = source.config();
  impl->options = options;
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

std::string ModelWeights::FormatText() const {
  std::set<WeightFormat> formats;
  bool rounded_inputs = false;
  for (const LayerWeights& layer : impl_->layers.layers) {
    for (const Matrix* matrix : {&layer.receptance, &layer.key, &layer.value, &layer.output,
                                 &layer.ffn_key, &layer.ffn_value}) {
      formats.insert(matrix->format);
      rounded_inputs |= matrix->rounded_inputs;
    }
  }
  std::string text;
  for (const WeightFormat format : formats)
    absl::StrAppend(&text, text.empty() ? "" : "+", WeightFormatName(format));
  if (rounded_inputs) absl::StrAppend(&text, ", activations fp8");
  if (impl_->head.format != WeightFormat::kBf16)
    absl::StrAppend(&text, ", head ", WeightFormatName(impl_->head.format));
  return text;
}

}  // namespace tandem
