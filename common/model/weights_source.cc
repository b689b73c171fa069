#include "common/model/weights_source.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/model/layout.h"
#include "common/model/tensor_convert.h"
#include "common/model/weight_format.h"
#include "kernels/linear/quantize.h"

namespace tandem {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 24;  // of any axis

absl::Status Refuse(const std::string& file, absl::string_view tensor, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": tensor ", tensor, ": ", problem));
}

absl::string_view PartName(Part part) {
  switch (part) {
    case Part::kEmbeddingAndHead:
      return "embedding and head";
    case Part::kMatrix:
      return "matrices";
    case Part::kLowRank:
      return "low-rank";
    case Part::kVector:
      return "vectors and norms";
  }
  return "";
}

bool IsLayerZeroValue(const TensorRule& rule, int layer) {
  return layer == 0 &&
         (rule.suffix == "att.v0" || rule.suffix == "att.v1" || rule.suffix == "att.v2");
}

bool MayBeQuantised(const TensorRule& rule) {
  return rule.part == Part::kMatrix || rule.suffix == "head.weight";
}

bool IsEmbeddingNorm(const TensorRule& rule) { return absl::StartsWith(rule.suffix, "ln0."); }

std::vector<int64_t> ExpectedShape(const TensorRule& rule, const ModelConfig& config) {
  std::vector<int64_t> shape = {AxisLength(rule.rows, config)};
  if (rule.columns != Axis::kNone) shape.push_back(AxisLength(rule.columns, config));
  return shape;
}

size_t Rank(const TensorRule& rule) { return rule.columns == Axis::kNone ? 1 : 2; }

// Matrices have no spare axes; vectors and r_k may have leading ones of size 1.
std::vector<int64_t> CanonicalShape(const TensorInfo& info, const TensorRule& rule,
                                    bool transpose) {
  if (rule.part != Part::kVector) {
    std::vector<int64_t> shape = info.shape;
    if (transpose) std::reverse(shape.begin(), shape.end());
    return shape;
  }
  return Squeeze(info.shape, Rank(rule));
}

absl::Status CheckValues(const QuantisedMatrix& stored) {
  if (stored.format != WeightFormat::kBf16) return CheckQuantisedValues(stored);
  const TensorInfo& info = *stored.codes;
  if (!IsLoadable(info.dtype)) {
    return Refuse(info.file, info.name,
                  absl::StrCat("type ", DTypeName(info.dtype), "; expected bf16, fp16 or fp32"));
  }
  return CheckFinite(info);
}

// What a quantised matrix has besides its first tensor.
void HashScales(const QuantisedMatrix& stored, Hasher& hasher) {
  if (stored.low != nullptr) hasher.Update(stored.low->bytes);
  hasher.Update(absl::StrCat(DTypeName(stored.scale->dtype), ";"));
  hasher.Update(stored.scale->bytes);
}

// Codes and scales of a matrix [N, K].
int64_t QuantisedBytes(WeightFormat format, const std::vector<int64_t>& shape) {
  const int64_t count = shape[0] * shape[1];
  if (format == WeightFormat::kInt6) return count * 3 / 4 + count / kInt6Group * 2;
  return count + shape[0] * 4;
}

// A scheme that left plain weights behind: the values are rounded (usable) or wrong.
absl::Status CheckScheme(const TensorFile& file) {
  const std::string& scheme = file.quant_scheme();
  if (scheme == "int8_affine") {
    return Refuse(
        file.path(), "quant_meta",
        "scheme int8_affine simulated in plain weights, whose values are damaged; expected "
        "the weights before quantisation");
  }
  if (absl::StartsWith(scheme, "int4_")) {
    LOG(WARNING) << file.path() << ": the weights were rounded by the scheme " << scheme
                 << " and stored unquantised; they are loaded as they are";
  }
  return absl::OkStatus();
}

}  // namespace

WeightsSource::WeightsSource(ModelPath path, std::unique_ptr<TensorFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<WeightsSource>> WeightsSource::Open(const std::string& path) {
  ASSIGN_OR_RETURN(ModelPath resolved, ResolveModelPath(path));
  ASSIGN_OR_RETURN(auto file, TensorFile::Open(resolved.checkpoint));
  std::unique_ptr<WeightsSource> source(new WeightsSource(std::move(resolved), std::move(file)));
  const std::string& hf_config = source->path_.hf_config;
  if (!hf_config.empty()) {
    ASSIGN_OR_RETURN(source->config_.embedding_normed, HfEmbeddingNormed(hf_config));
  }
  RETURN_IF_ERROR(source->MapNames());
  RETURN_IF_ERROR(source->AssembleMatrices());
  RETURN_IF_ERROR(source->CheckPresent());
  RETURN_IF_ERROR(source->DeriveConfig());
  RETURN_IF_ERROR(source->CheckShapes());
  source->DropUnread();
  if (!hf_config.empty()) RETURN_IF_ERROR(CheckHfConfig(hf_config, source->config_));
  RETURN_IF_ERROR(source->ReadValues());
  return source;
}

absl::Status WeightsSource::MapNames() {
  for (const TensorInfo& info : file_->tensors()) {
    if (const auto reason = RefusedName(info.name); !reason.empty()) {
      return Refuse(info.file, info.name, reason);
    }
  }
  RETURN_IF_ERROR(CheckScheme(*file_));
  ASSIGN_OR_RETURN(const Layout layout, DetectLayout(*file_));
  for (const TensorInfo& info : file_->tensors()) {
    const auto [matrix, which] = SplitMatrixTensor(info.name);
    const auto name = ToCanonical(layout, matrix);
    if (!name.has_value()) {
      return Refuse(info.file, info.name, "RWKV-7 has no tensor of this name; expected none");
    }
    const TensorRule& rule = *name->rule;
    if (which != MatrixTensor::kPlain && !MayBeQuantised(rule)) {
      return Refuse(info.file, info.name,
                    absl::StrCat("part of a quantised tensor; expected ", matrix,
                                 " in bf16, fp16 or fp32: only the six matrices of a layer and the "
                                 "head may be quantised"));
    }
    Entry& entry = entries_[PthName(rule, name->layer)];
    entry.found[static_cast<size_t>(which)] = &info;
    entry.rule = &rule;
    entry.layer = name->layer;
    entry.transpose = layout == Layout::kFla && rule.transposed_in_fla;
  }
  return absl::OkStatus();
}

absl::Status WeightsSource::AssembleMatrices() {
  for (auto& [name, entry] : entries_) {
    if (MayBeQuantised(*entry.rule)) {
      ASSIGN_OR_RETURN(entry.stored, AssembleMatrix(entry.found));
    } else {
      entry.stored.codes = entry.found[static_cast<size_t>(MatrixTensor::kPlain)];
    }
    entry.info = entry.stored.codes;
    entry.shape = CanonicalShape(*entry.info, *entry.rule, entry.transpose);
    if (entry.stored.format != WeightFormat::kInt6) continue;
    if (entry.rule->part != Part::kMatrix) {
      return Refuse(entry.info->file, entry.info->name,
                    "a head of int6; expected bf16, fp8 or int8: logits need more than 6 bits");
    }
    if (entry.shape.size() == 2) entry.shape[1] *= 2;
  }
  return absl::OkStatus();
}

absl::Status WeightsSource::CheckPresent() {
  int last = -1;
  for (const auto& [name, entry] : entries_) last = std::max(last, entry.layer);
  config_.layers = last + 1;
  const auto require = [this](const TensorRule& rule, int layer) {
    const std::string name = PthName(rule, layer);
    if (entries_.count(name) > 0) return absl::OkStatus();
    return Refuse(path_.checkpoint, name,
                  absl::StrCat("missing; a model with the layers 0 to ", config_.layers - 1,
                               " has it (in the fla layout it is called ", rule.fla, ")"));
  };
  for (const TensorRule& rule : ModelRules()) RETURN_IF_ERROR(require(rule, -1));
  // At least layer 0 has to be there.
  for (int layer = 0; layer < std::max(1, config_.layers); ++layer) {
    for (const TensorRule& rule : LayerRules()) {
      if (IsEmbeddingNorm(rule) && (layer > 0 || config_.embedding_normed)) continue;
      if (IsLayerZeroValue(rule, layer)) continue;
      RETURN_IF_ERROR(require(rule, layer));
    }
  }
  return absl::OkStatus();
}

absl::Status WeightsSource::DeriveConfig() {
  const Entry& emb = Get("emb.weight");
  if (emb.shape.size() != 2 || emb.shape[0] < 1 || emb.shape[0] > kMaxLength ||
      emb.shape[1] < kHeadSize || emb.shape[1] > kMaxLength || emb.shape[1] % kHeadSize != 0) {
    return Refuse(emb.info->file, emb.info->name,
                  absl::StrCat("shape ", ShapeString(emb.info->shape),
                               "; expected [V, C] with C a multiple of the head size ", kHeadSize));
  }
  config_.vocab = static_cast<int>(emb.shape[0]);
  config_.width = static_cast<int>(emb.shape[1]);
  config_.heads = config_.width / kHeadSize;
  config_.ffn = 4 * config_.width;
  const std::string value_layer = config_.layers > 1 ? "blocks.1.att.v1" : "blocks.0.att.v1";
  const std::pair<std::string, int*> ranks[] = {{"blocks.0.att.w1", &config_.decay_rank},
                                                {"blocks.0.att.a1", &config_.icl_rank},
                                                {value_layer, &config_.value_rank},
                                                {"blocks.0.att.g1", &config_.gate_rank}};
  for (const auto& [name, rank] : ranks) {
    if (!Has(name)) continue;  // only v1 of a model of one layer
    const Entry& factor = Get(name);
    const std::vector<int64_t>& shape = factor.shape;
    if (shape.size() != 2 || shape[0] != config_.width || shape[1] < 1 || shape[1] > kMaxLength) {
      const bool transposed = shape.size() == 2 && shape[1] == config_.width;
      return Refuse(factor.info->file, factor.info->name,
                    absl::StrCat("shape ", ShapeString(factor.info->shape), "; expected ",
                                 factor.transpose ? "[rank, C]" : "[C, rank]", " with C = ",
                                 config_.width, transposed ? "; it is transposed" : ""));
    }
    *rank = static_cast<int>(shape[1]);
  }
  return absl::OkStatus();
}

absl::Status WeightsSource::CheckShapes() const {
  for (const auto& [name, entry] : entries_) {
    std::vector<int64_t> expected = ExpectedShape(*entry.rule, config_);
    if (entry.stored.format != WeightFormat::kBf16) {
      RETURN_IF_ERROR(
          CheckQuantisedShapes(entry.stored, expected[0], expected[1], file_->quant_scheme()));
      continue;
    }
    if (entry.shape == expected) continue;
    // A model of one layer may keep a v0 or v2 beside no v1: no rank to compare with, and never
    // read.
    if (config_.value_rank == 0 && IsLayerZeroValue(*entry.rule, entry.layer)) continue;
    std::vector<int64_t> turned(expected.rbegin(), expected.rend());
    const bool transposed = entry.rule->part == Part::kLowRank && entry.shape == turned;
    return Refuse(entry.info->file, entry.info->name,
                  absl::StrCat("shape ", ShapeString(entry.info->shape), "; expected ",
                               ShapeString(entry.transpose ? turned : expected),
                               transposed ? "; it is transposed" : ""));
  }
  return absl::OkStatus();
}

void WeightsSource::DropUnread() {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const TensorRule& rule = *entry->second.rule;
    const bool unread = IsLayerZeroValue(rule, entry->second.layer) ||
                        (IsEmbeddingNorm(rule) && config_.embedding_normed);
    entry = unread ? entries_.erase(entry) : std::next(entry);
  }
  if (config_.layers == 1) config_.value_rank = 0;
}

absl::Status WeightsSource::ReadValues() {
  Hasher hasher;
  if (config_.embedding_normed) hasher.Update("embedding_normed;");
  struct Content {
    int64_t parameters = 0;
    std::set<std::string> types;
    int64_t bytes = 0;
  };
  std::map<Part, Content> parts;
  for (const auto& [name, entry] : entries_) {
    RETURN_IF_ERROR(CheckValues(entry.stored));
    const TensorInfo& info = *entry.info;
    const bool quantised = entry.stored.format != WeightFormat::kBf16;
    const std::string type(quantised ? WeightFormatName(entry.stored.format)
                                     : DTypeName(info.dtype));
    hasher.Update(absl::StrCat(name, " ", type, " ", ShapeString(entry.shape), ";"));
    hasher.Update(entry.transpose ? absl::MakeConstSpan(TransposedBytes(info)) : info.bytes);
    if (quantised) HashScales(entry.stored, hasher);
    integer_rounded_ += HoldsIntegersOnly(entry.stored) ? 1 : 0;
    auto& [parameters, types, bytes] = parts[entry.rule->part];
    int64_t count = 1;
    for (const int64_t axis : entry.shape) count *= axis;
    parameters += count;
    parameter_count_ += count;
    types.insert(type);
    const bool wide = entry.rule->part == Part::kVector || name == "emb.weight";
    bytes += quantised ? QuantisedBytes(entry.stored.format, entry.shape) : count * (wide ? 4 : 2);
  }
  if (integer_rounded_ > 0) {
    LOG(WARNING) << path_.checkpoint << ": " << integer_rounded_
                 << " fp8 matrices hold integers only: they were rounded twice, and weights below "
                    "1.8 % of the largest have lost precision";
  }
  for (const auto& [part, content] : parts) {
    components_.push_back({.name = std::string(PartName(part)),
                           .parameters = content.parameters,
                           .dtype = absl::StrJoin(content.types, "+"),
                           .loaded_bytes = content.bytes});
  }
  content_hash_ = hasher.Digest();
  return absl::OkStatus();
}

const WeightsSource::Entry& WeightsSource::Get(absl::string_view name) const {
  const auto found = entries_.find(std::string(name));
  CHECK(found != entries_.end()) << "no tensor " << name;
  return found->second;
}

bool WeightsSource::Has(absl::string_view name) const {
  return entries_.count(std::string(name)) > 0;
}

std::vector<std::string> WeightsSource::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const std::vector<int64_t>& WeightsSource::Shape(absl::string_view name) const {
  return Get(name).shape;
}

DType WeightsSource::dtype(absl::string_view name) const { return Get(name).info->dtype; }

WeightFormat WeightsSource::format(absl::string_view name) const { return Get(name).stored.format; }

StoredCodes WeightsSource::Codes(absl::string_view name) const {
  const Entry& entry = Get(name);
  return StoredCodes(entry.stored, static_cast<int>(entry.shape[0]),
                     static_cast<int>(entry.shape[1]));
}

std::vector<float> WeightsSource::ReadFp32(absl::string_view name) const {
  const TensorInfo& info = *Get(name).info;
  std::vector<float> values(info.bytes.size() / DTypeSize(info.dtype));
  CopyFp32(name, absl::MakeSpan(values));
  return values;
}

void WeightsSource::CopyFp32(absl::string_view name, absl::Span<float> out) const {
  const Entry& entry = Get(name);
  ConvertToFp32(*entry.info, entry.transpose, out);
}

void WeightsSource::CopyBf16(absl::string_view name, absl::Span<uint16_t> out) const {
  const Entry& entry = Get(name);
  ConvertToBf16(*entry.info, entry.transpose, out);
}

}  // namespace tandem
