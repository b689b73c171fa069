#include "common/model/layout.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace tandem {
namespace {

constexpr int kMaxLayers = 4096;

constexpr TensorRule Vector(absl::string_view suffix, absl::string_view fla) {
  return {suffix, fla, Axis::kWidth, Axis::kNone, Part::kVector, false};
}

constexpr TensorRule Square(absl::string_view suffix, absl::string_view fla) {
  return {suffix, fla, Axis::kWidth, Axis::kWidth, Part::kMatrix, false};
}

// The factor from C to the rank, and the one back.
constexpr TensorRule Down(absl::string_view suffix, absl::string_view fla, Axis rank) {
  return {suffix, fla, Axis::kWidth, rank, Part::kLowRank, true};
}

constexpr TensorRule Up(absl::string_view suffix, absl::string_view fla, Axis rank) {
  return {suffix, fla, rank, Axis::kWidth, Part::kLowRank, true};
}

constexpr TensorRule kModelRules[] = {
    {"emb.weight", "model.embeddings.weight", Axis::kVocab, Axis::kWidth, Part::kEmbeddingAndHead},
    {"head.weight", "lm_head.weight", Axis::kVocab, Axis::kWidth, Part::kEmbeddingAndHead},
    Vector("ln_out.weight", "model.norm.weight"),
    Vector("ln_out.bias", "model.norm.bias"),
};

constexpr TensorRule kLayerRules[] = {
    Vector("ln0.weight", "pre_norm.weight"),
    Vector("ln0.bias", "pre_norm.bias"),
    Vector("ln1.weight", "attn_norm.weight"),
    Vector("ln1.bias", "attn_norm.bias"),
    Vector("ln2.weight", "ffn_norm.weight"),
    Vector("ln2.bias", "ffn_norm.bias"),
    Vector("att.x_r", "attn.x_r"),
    Vector("att.x_w", "attn.x_w"),
    Vector("att.x_k", "attn.x_k"),
    Vector("att.x_v", "attn.x_v"),
    Vector("att.x_a", "attn.x_a"),
    Vector("att.x_g", "attn.x_g"),
    Vector("att.k_k", "attn.k_k"),
    Vector("att.k_a", "attn.k_a"),
    {"att.r_k", "attn.r_k", Axis::kHeads, Axis::kHeadWidth, Part::kVector},
    Vector("att.w0", "attn.w_lora.lora.2.bias"),
    Vector("att.a0", "attn.a_lora.lora.2.bias"),
    Vector("att.v0", "attn.v_lora.lora.2.bias"),
    Down("att.w1", "attn.w_lora.lora.0.weight", Axis::kDecay),
    Up("att.w2", "attn.w_lora.lora.2.weight", Axis::kDecay),
    Down("att.a1", "attn.a_lora.lora.0.weight", Axis::kIcl),
    Up("att.a2", "attn.a_lora.lora.2.weight", Axis::kIcl),
    Down("att.v1", "attn.v_lora.lora.0.weight", Axis::kValue),
    Up("att.v2", "attn.v_lora.lora.2.weight", Axis::kValue),
    Down("att.g1", "attn.g_lora.lora.0.weight", Axis::kGate),
    Up("att.g2", "attn.g_lora.lora.2.weight", Axis::kGate),
    Square("att.receptance.weight", "attn.r_proj.weight"),
    Square("att.key.weight", "attn.k_proj.weight"),
    Square("att.value.weight", "attn.v_proj.weight"),
    Square("att.output.weight", "attn.o_proj.weight"),
    Vector("att.ln_x.weight", "attn.g_norm.weight"),
    Vector("att.ln_x.bias", "attn.g_norm.bias"),
    Vector("ffn.x_k", "ffn.x_k"),
    {"ffn.key.weight", "ffn.key.weight", Axis::kFfn, Axis::kWidth, Part::kMatrix},
    {"ffn.value.weight", "ffn.value.weight", Axis::kWidth, Axis::kFfn, Part::kMatrix},
};

// Part of a name -> what the file is instead.
struct Refusal {
  absl::string_view part;
  absl::string_view reason;
};

constexpr absl::string_view kRwkv7a =
    "this is rwkv7a (DeepEmbed), a different model; RWKV-7 expected";
constexpr absl::string_view kRwkv7b =
    "this is rwkv7b (a KV cache), a different model; RWKV-7 expected";
constexpr absl::string_view kOlder =
    "this is RWKV-4, 5 or 6, another architecture; RWKV-7 expected";
constexpr absl::string_view kAffine =
    "int8 with an affine map, which this build does not load; expected symmetric int8 (int8_weight "
    "and int8_scale), fp8, int6 or the weights before quantisation";
constexpr absl::string_view kInt4 =
    "int4, which this build does not load; expected fp8, int8, int6 or the weights before "
    "quantisation";
constexpr absl::string_view kOtherScheme =
    "a quantisation scheme that this build does not load; expected fp8, int8, int6 or the weights "
    "before quantisation";

constexpr Refusal kRefusals[] = {
    {".ffn.s_emb", kRwkv7a},
    {".ffn.s0", kRwkv7a},
    {".ffn.s1", kRwkv7a},
    {".ffn.s2", kRwkv7a},
    {".qkv.", kRwkv7b},
    {"time_decay", kOlder},
    {"time_maa_", kOlder},
    {"time_mix_", kOlder},
    {"time_faaaa", kOlder},
    {"time_first", kOlder},
    {".att.gate.weight", kOlder},
    {".int8_w_u8", kAffine},
    {".int8_mx", kAffine},
    {".int8_rx", kAffine},
    {".int8_my", kAffine},
    {".int8_ry", kAffine},
    {".int4_", kInt4},
    {".awq_", kOtherScheme},
    {".weight_scale", kOtherScheme},
    {".input_scale", kOtherScheme},
};

// Splits "12.att.w1" into the layer and the suffix; nothing when the layer is not a plain number.
std::optional<CanonicalName> FindLayerRule(absl::string_view rest, bool fla) {
  const size_t dot = rest.find('.');
  int layer = -1;
  if (dot == absl::string_view::npos || !absl::SimpleAtoi(rest.substr(0, dot), &layer) ||
      layer < 0 || layer >= kMaxLayers || absl::StrCat(layer) != rest.substr(0, dot)) {
    return std::nullopt;
  }
  const absl::string_view suffix = rest.substr(dot + 1);
  for (const TensorRule& rule : kLayerRules) {
    if ((fla ? rule.fla : rule.suffix) != suffix) continue;
    if (layer > 0 && absl::StartsWith(rule.suffix, "ln0.")) return std::nullopt;
    return CanonicalName{.rule = &rule, .layer = layer};
  }
  return std::nullopt;
}

}  // namespace

absl::Span<const TensorRule> ModelRules() { return kModelRules; }
absl::Span<const TensorRule> LayerRules() { return kLayerRules; }

std::string PthName(const TensorRule& rule, int layer) {
  return layer < 0 ? std::string(rule.suffix) : absl::StrCat("blocks.", layer, ".", rule.suffix);
}

absl::StatusOr<Layout> DetectLayout(const TensorFile& file) {
  std::vector<absl::string_view> signs;
  Layout layout = Layout::kPth;
  constexpr std::pair<absl::string_view, Layout> kSigns[] = {
      {"emb.weight", Layout::kPth},
      {"rwkv7.emb.weight", Layout::kOfficial},
      {"model.embeddings.weight", Layout::kFla},
  };
  for (const auto& [sign, meaning] : kSigns) {
    if (file.Find(sign) == nullptr) continue;
    signs.push_back(sign);
    layout = meaning;
  }
  if (signs.size() == 1) return layout;
  const std::string found = signs.empty() ? "none" : absl::StrJoin(signs, " and ");
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": embedding tensors found: ", found,
      "; expected exactly one of emb.weight, rwkv7.emb.weight, model.embeddings.weight"));
}

std::optional<CanonicalName> ToCanonical(Layout layout, absl::string_view name) {
  const bool fla = layout == Layout::kFla;
  // Of the official names, only the head stands outside "rwkv7.".
  if (layout == Layout::kOfficial &&
      absl::ConsumePrefix(&name, "rwkv7.") == (name == "head.weight")) {
    return std::nullopt;
  }
  for (const TensorRule& rule : kModelRules) {
    if ((fla ? rule.fla : rule.suffix) == name) return CanonicalName{.rule = &rule};
  }
  if (!absl::ConsumePrefix(&name, fla ? "model.layers." : "blocks.")) return std::nullopt;
  return FindLayerRule(name, fla);
}

absl::string_view RefusedName(absl::string_view name) {
  for (const Refusal& refusal : kRefusals) {
    if (absl::StrContains(name, refusal.part)) return refusal.reason;
  }
  return "";
}

int AxisLength(Axis axis, const ModelConfig& config) {
  switch (axis) {
    case Axis::kNone:
      return 0;
    case Axis::kWidth:
      return config.width;
    case Axis::kFfn:
      return config.ffn;
    case Axis::kVocab:
      return config.vocab;
    case Axis::kHeads:
      return config.heads;
    case Axis::kHeadWidth:
      return kHeadSize;
    case Axis::kDecay:
      return config.decay_rank;
    case Axis::kIcl:
      return config.icl_rank;
    case Axis::kValue:
      return config.value_rank;
    case Axis::kGate:
      return config.gate_rank;
  }
  return 0;
}

std::vector<int64_t> Squeeze(absl::Span<const int64_t> shape, size_t rank) {
  while (shape.size() > rank && shape.front() == 1) shape.remove_prefix(1);
  return {shape.begin(), shape.end()};
}

}  // namespace tandem
