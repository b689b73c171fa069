#include "common/model/synthetic.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/model/no_memory.h"
#include "common/model/synthetic_arena.h"
#include "common/model/weights_layers.h"

namespace tandem {
namespace {

// The tables are numbered apart from the tensors of the layers.
constexpr uint64_t kEmbeddingTensor = 0x80000000u;
constexpr uint64_t kHeadTensor = 0x80000001u;
constexpr char kSmaller[] = "use a smaller format or a smaller model";

struct Size {
  absl::string_view name;
  ModelConfig config;
};

const Size kSizes[] = {
    {"2.9b",
     {.layers = 32,
      .width = 2560,
      .heads = 40,
      .ffn = 10240,
      .vocab = 65536,
      .decay_rank = 96,
      .icl_rank = 96,
      .value_rank = 64,
      .gate_rank = 320}},
    {"7.2b",
     {.layers = 32,
      .width = 4096,
      .heads = 64,
      .ffn = 16384,
      .vocab = 65536,
      .decay_rank = 128,
      .icl_rank = 128,
      .value_rank = 96,
      .gate_rank = 480}},
    {"13.3b",
     {.layers = 61,
      .width = 4096,
      .heads = 64,
      .ffn = 16384,
      .vocab = 65536,
      .decay_rank = 192,
      .icl_rank = 192,
      .value_rank = 128,
      .gate_rank = 384}},
    {"tiny",
     {.layers = 4,
      .width = 256,
      .heads = 4,
      .ffn = 1024,
      .vocab = 2048,
      .decay_rank = 32,
      .icl_rank = 32,
      .value_rank = 32,
      .gate_rank = 64}},
};

Matrix LargeMatrix(const SyntheticModel& model, int rows, int cols) {
  const bool rounded = model.rounded_inputs && model.format == WeightFormat::kFp8;
  return {.format = model.format, .rows = rows, .cols = cols, .rounded_inputs = rounded};
}

// In the ranges of trained models: decays from 0.55 to nearly 1, learning rates around 0.5.
void PlaceTimeMix(SyntheticArena& arena, const SyntheticModel& model, bool first,
                  LayerWeights& layer) {
  constexpr WeightFormat kSmall = WeightFormat::kBf16;
  const ModelConfig& config = model.config;
  const int c = config.width;
  const size_t count = static_cast<size_t>(c);
  layer.ln1_weight = arena.Vector(count, {.scale = 0.1, .mean = 1.0});
  layer.ln1_bias = arena.Vector(count, {.scale = 0.05});
  layer.att_mix = arena.Vector(6 * count, {.scale = 0.25, .mean = 0.5});
  layer.w0 = arena.Vector(count, {.scale = 1.7, .mean = -3.0});
  layer.a0 = arena.Vector(count, {.scale = 0.5});
  layer.k_k = arena.Vector(count, {.scale = 0.05, .mean = 0.85});
  layer.k_a = arena.Vector(count, {.scale = 0.02, .mean = 1.0});
  layer.r_k = arena.Vector(count, {.scale = 0.1});
  layer.ln_x_weight = arena.Vector(count, {.scale = 0.1, .mean = 1.0});
  layer.ln_x_bias = arena.Vector(count, {.scale = 0.05});
  layer.receptance = arena.Projection(LargeMatrix(model, c, c));
  layer.key = arena.Projection(LargeMatrix(model, c, c));
  layer.value = arena.Projection(LargeMatrix(model, c, c));
  layer.output = arena.Projection(LargeMatrix(model, c, c));
  layer.w1 = arena.Projection(kSmall, config.decay_rank, c);
  layer.a1 = arena.Projection(kSmall, config.icl_rank, c);
  layer.g1 = arena.Projection(kSmall, config.gate_rank, c);
  layer.w2 = arena.Projection(kSmall, c, config.decay_rank, 0.5);
  layer.a2 = arena.Projection(kSmall, c, config.icl_rank, 0.5);
  layer.g2 = arena.Projection(kSmall, c, config.gate_rank, 2.0);  // its inputs are around 0.5
  if (first) return;
  layer.v0 = arena.Vector(count, {.scale = 0.2, .mean = 0.7});
  layer.v1 = arena.Projection(kSmall, config.value_rank, c);
  layer.v2 = arena.Projection(kSmall, c, config.value_rank, 0.5);
}

void PlaceChannelMix(SyntheticArena& arena, const SyntheticModel& model, LayerWeights& layer) {
  const int c = model.config.width;
  const size_t count = static_cast<size_t>(c);
  layer.ln2_weight = arena.Vector(count, {.scale = 0.0, .mean = 1.0});
  layer.ln2_bias = arena.Vector(count, {.scale = 0.0, .mean = kSyntheticMixBias});
  layer.ffn_mix = arena.Vector(count, {.scale = 0.0, .mean = kSyntheticMixShift});
  layer.ffn_key =
      arena.Pack(LargeMatrix(model, model.config.ffn, c), ChannelMixKeySpread(c, model.zero_share));
  Matrix value = LargeMatrix(model, c, model.config.ffn);
  value.sparse_inputs = true;
  layer.ffn_value = arena.Projection(value, 2.0);
}

ModelWeights::Layers PlaceLayers(SyntheticArena& arena, const SyntheticModel& model) {
  ModelWeights::Layers all;
  for (int i = 0; i < model.config.layers; ++i) {
    LayerWeights layer;
    PlaceTimeMix(arena, model, i == 0, layer);
    PlaceChannelMix(arena, model, layer);
    all.layers.push_back(layer);
  }
  const size_t count = static_cast<size_t>(model.config.width);
  all.ln_out_weight = arena.Vector(count, {.scale = 0.1, .mean = 1.0});
  all.ln_out_bias = arena.Vector(count, {.scale = 0.05});
  return all;
}

absl::Status MakeLayers(Backend* backend, const SyntheticModel& model, ModelWeights::Parts& parts) {
  SyntheticArena measure(backend, model.seed, nullptr);
  PlaceLayers(measure, model);
  void* const memory = backend->Allocate(measure.bytes());
  if (memory == nullptr)
    return NoMemory(*backend, absl::StrCat("the weights of the layers of ", model.name),
                    measure.bytes(), kSmaller);
  SyntheticArena arena(backend, model.seed, memory);
  parts.layers = PlaceLayers(arena, model);
  return arena.status();
}

size_t EmbeddingCount(const ModelConfig& config) {
  return static_cast<size_t>(config.vocab) * static_cast<size_t>(config.width);
}

Matrix HeadShape(const SyntheticModel& model) {
  return {.format = model.head_format, .rows = model.config.vocab, .cols = model.config.width};
}

// The two tables that a drafter maps.
absl::Status MakeTables(Backend* backend, const SyntheticModel& model, ModelWeights::Parts& parts) {
  const ModelConfig& config = model.config;
  const size_t count = EmbeddingCount(config);
  const size_t bytes = count * sizeof(float);
  auto* const table =
      static_cast<float*>(backend->AllocateExported(bytes, &parts.embedding_handle));
  if (table == nullptr)
    return NoMemory(*backend, absl::StrCat("the embedding table's pages of ", model.name), bytes,
                    kSmaller);
  backend->FillRandom(table, count, FillOfTensor(model.seed, kEmbeddingTensor, {}));
  parts.embedding = table;

  parts.head = HeadShape(model);
  const size_t packed = backend->PackedBytes(parts.head);
  void* const head = backend->AllocateExported(packed, &parts.head_handle);
  if (head == nullptr)
    return NoMemory(*backend, absl::StrCat("the head's pages of ", model.name), packed, kSmaller);
  const RandomFill fill =
      FillOfTensor(model.seed, kHeadTensor, {.scale = 1.0 / std::sqrt(config.width)});
  if (!backend->PackRandom(head, parts.head, fill))
    return NoMemoryToPack(*backend, "the head", parts.head, kSmaller);
  parts.head.data = head;
  if (!backend->SealForReaders(parts.embedding_handle) ||
      !backend->SealForReaders(parts.head_handle)) {
    return absl::InternalError("the synthetic tables could not be sealed against writing");
  }
  return absl::OkStatus();
}

uint64_t HashOf(const SyntheticModel& model) {
  Hasher hasher;
  hasher.Update(absl::StrCat(model.name, "/", static_cast<int>(model.format), "/",
                             static_cast<int>(model.head_format), "/", model.rounded_inputs, "/",
                             model.zero_share, "/", model.seed));
  return hasher.Digest();
}

}  // namespace

absl::StatusOr<SyntheticModel> SyntheticOfSize(absl::string_view size) {
  for (const Size& known : kSizes) {
    if (known.name == size)
      return SyntheticModel{.config = known.config, .name = absl::StrCat("synthetic-", size)};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no synthetic size \"", size, "\": 2.9b, 7.2b, 13.3b or tiny"));
}

ModelWeights::Bytes MeasureSynthetic(Backend* backend, const SyntheticModel& model) {
  SyntheticArena layers(backend, model.seed, nullptr);
  PlaceLayers(layers, model);
  return {.layers = layers.bytes(),
          .embedding = EmbeddingCount(model.config) * sizeof(float),
          .head = backend->PackedBytes(HeadShape(model))};
}

std::optional<std::string> SyntheticSize(absl::string_view model) {
  if (!absl::ConsumePrefix(&model, "synthetic:")) return std::nullopt;
  return std::string(model);
}

int64_t ParameterCount(const ModelConfig& config) {
  constexpr int64_t kVectors = 18;  // [C] of a layer, v0 apart
  const int64_t c = config.width;
  const int64_t factors = 2 * (config.decay_rank + config.icl_rank + config.gate_rank);
  const int64_t layer = 4 * c * c + 2 * c * config.ffn + c * (factors + kVectors);
  const int64_t values = (config.layers - 1) * c * (2 * config.value_rank + 1);
  constexpr int64_t kNorms = 4;  // [C] of ln0 and ln_out
  return config.layers * layer + values + c * (2 * config.vocab + kNorms);
}

absl::StatusOr<std::unique_ptr<ModelWeights>> MakeSynthetic(Backend* backend,
                                                            const SyntheticModel& model) {
  if (!(model.zero_share >= 0.0 && model.zero_share < 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a zero share of ", model.zero_share, ": must be from 0 to below 1"));
  }
  ModelWeights::Parts parts = {
      .backend = backend, .config = model.config, .hash = HashOf(model), .name = model.name};
  RETURN_IF_ERROR(MakeLayers(backend, model, parts));
  RETURN_IF_ERROR(MakeTables(backend, model, parts));
  return ModelWeights::Of(std::move(parts));
}

}  // namespace tandem
