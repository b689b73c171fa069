#include "common/model/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/json_text.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr double kNormEps = 1e-5;
constexpr char kEmbeddingNormed[] = "embedding_layer_norm_fused";

absl::Status Contradiction(const std::string& path, const char* key, const json& found,
                           const std::string& expected) {
  const std::string text =
      found.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace).substr(0, 80);
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", key, " is ", text, "; expected ", expected));
}

// What a dimension has to be.
struct Dimension {
  const char* key;
  int expected;
};

absl::Status CheckDimensions(const std::string& path, const json& file, const ModelConfig& config) {
  const Dimension dimensions[] = {
      {"vocab_size", config.vocab},
      {"hidden_size", config.width},
      {"attention_hidden_size", config.width},
      {"num_hidden_layers", config.layers},
      {"head_dim", kHeadSize},
      {"head_size", kHeadSize},
      {"num_heads", config.heads},
      {"num_attention_heads", config.heads},
      {"decay_low_rank_dim", config.decay_rank},
      {"a_low_rank_dim", config.icl_rank},
      {"v_low_rank_dim", config.value_rank},
      {"gate_low_rank_dim", config.gate_rank},
      {"intermediate_size", config.ffn},
      {"hidden_ratio", config.ffn / config.width},
  };
  for (const auto& [key, expected] : dimensions) {
    const auto found = file.find(key);
    if (found == file.end() || found->is_null()) continue;
    // A model of one layer has no value residual, whatever its config says.
    if (config.value_rank == 0 && key == std::string("v_low_rank_dim")) continue;
    if (!found->is_number() || found->get<double>() != expected) {
      return Contradiction(path, key, *found, absl::StrCat(expected, " from the tensor shapes"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConstants(const std::string& path, const json& file) {
  const std::pair<const char*, json> constants[] = {
      {"norm_bias", true},      {"tie_word_embeddings", false},
      {"hidden_act", "sqrelu"}, {"norm_first", true},
      {"attn", nullptr},        {"use_deep_embed", false},
  };
  for (const auto& [key, expected] : constants) {
    const auto found = file.find(key);
    if (found != file.end() && *found != expected) {
      return Contradiction(path, key, *found, absl::StrCat(expected.dump(), " in every RWKV-7"));
    }
  }
  const auto eps = file.find("norm_eps");
  if (eps != file.end() &&
      (!eps->is_number() || std::abs(eps->get<double>() - kNormEps) > kNormEps * 1e-6)) {
    return Contradiction(path, "norm_eps", *eps, "1e-5");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> HfEmbeddingNormed(const std::string& path) {
  ASSIGN_OR_RETURN(const json file, ReadJsonObject(path));
  const auto found = file.find(kEmbeddingNormed);
  if (found == file.end()) return false;
  if (!found->is_boolean()) {
    return Contradiction(path, kEmbeddingNormed, *found, "true or false");
  }
  return found->get<bool>();
}

absl::Status CheckHfConfig(const std::string& path, const ModelConfig& config) {
  ASSIGN_OR_RETURN(const json file, ReadJsonObject(path));
  RETURN_IF_ERROR(CheckDimensions(path, file, config));
  return CheckConstants(path, file);
}

}  // namespace tandem
