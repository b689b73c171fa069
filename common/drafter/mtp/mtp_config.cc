#include "common/drafter/mtp/mtp_config.h"

#include <climits>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/model/json_text.h"
#include "common/model/model_path.h"

namespace tandem {
namespace {

using nlohmann::json;

// Reads the keys of `meta`; every error names file, key, what stands there and what was expected.
class MetaReader final {
 public:
  MetaReader(const std::string& path, const json& meta) : path_(path), meta_(meta) {}

  absl::Status Refuse(const char* key, const std::string& expected) const {
    const std::string found = meta_.contains(key)
                                  ? meta_[key].dump(-1, ' ', true, json::error_handler_t::replace)
                                  : "missing";
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": meta.", key, " is ", found.substr(0, 80), "; expected ", expected));
  }

  absl::Status Require(const char* key, const json& value) const {
    if (meta_.contains(key) && meta_[key] == value) return absl::OkStatus();
    return Refuse(key, value.dump());
  }

  absl::StatusOr<int> Integer(const char* key, int low, int high) const {
    const auto value = meta_.contains(key) ? Number(meta_[key]) : std::nullopt;
    if (value.has_value() && *value >= low && *value <= high) return static_cast<int>(*value);
    return Refuse(key, absl::StrCat("an integer of ", low, " to ", high));
  }

  absl::StatusOr<std::string> Text(const char* key) const {
    const auto* text = meta_.contains(key) ? meta_[key].get_ptr<const std::string*>() : nullptr;
    if (text == nullptr || text->empty()) return Refuse(key, "a text");
    return *text;
  }

  absl::StatusOr<bool> Flag(const char* key) const {
    if (!meta_.contains(key) || !meta_[key].is_boolean()) return Refuse(key, "true or false");
    return meta_[key].get<bool>();
  }

  absl::StatusOr<std::array<int, 2>> FuseLayers() const {
    const char* key = "fuse_layers";
    std::array<int, 2> layers = {-1, -1};
    if (meta_.contains(key) && meta_[key].is_array() && meta_[key].size() == 2) {
      for (size_t i = 0; i < 2; ++i) {
        const auto value = Number(meta_[key][i]);
        if (value.has_value() && *value >= 0 && *value < INT_MAX) {
          layers[i] = static_cast<int>(*value);
        }
      }
    }
    if (layers[0] >= 0 && layers[0] < layers[1]) return layers;
    return Refuse(key, "two layers [f1, f2] with 0 <= f1 < f2");
  }

  // For reports only: absent or of another type is empty.
  std::string OptionalText(const char* key) const {
    const auto* text = meta_.contains(key) ? meta_[key].get_ptr<const std::string*>() : nullptr;
    return text == nullptr ? "" : *text;
  }
  int64_t OptionalNumber(const char* key) const {
    return meta_.contains(key) ? Number(meta_[key]).value_or(0) : 0;
  }

 private:
  static std::optional<int64_t> Number(const json& value) {
    const auto* number = value.get_ptr<const json::number_unsigned_t*>();
    if (number == nullptr || *number > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(*number);
  }

  const std::string& path_;
  const json& meta_;
};

}  // namespace

absl::StatusOr<MtpConfig> ReadMtpConfig(const std::string& path) {
  ASSIGN_OR_RETURN(const json file, ReadJsonObject(path));
  if (!file.contains("meta") || !file["meta"].is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": no object meta; expected {\"meta\": {...}}"));
  }
  const MetaReader meta(path, file["meta"]);
  RETURN_IF_ERROR(meta.Require("format", "rwkv-mtp"));
  RETURN_IF_ERROR(meta.Require("version", 1));
  RETURN_IF_ERROR(meta.Require("kind", "attn"));
  MtpConfig config;
  ASSIGN_OR_RETURN(config.base_model, meta.Text("base_model"));
  ASSIGN_OR_RETURN(config.layers, meta.Integer("n_layer", 1, 1 << 20));
  ASSIGN_OR_RETURN(config.width, meta.Integer("n_embd", 1, 1 << 24));
  ASSIGN_OR_RETURN(config.fuse_layers, meta.FuseLayers());
  ASSIGN_OR_RETURN(config.depth, meta.Integer("depth", 1, 1 << 10));
  ASSIGN_OR_RETURN(config.depth_adapter, meta.Flag("dd"));
  ASSIGN_OR_RETURN(config.window, meta.Integer("ctx", 1, kMtpMaxWindow));
  config.target = meta.OptionalText("target");
  config.tokens = meta.OptionalNumber("tokens");
  return config;
}

absl::StatusOr<std::vector<std::string>> MatchMtp(const MtpConfig& config, const MtpBase& base,
                                                  bool force, const std::string& folder) {
  const std::string both =
      absl::StrCat("the sidecar is for ", config.base_model, " (", config.layers, " layers, width ",
                   config.width, "); the loaded model is ", base.name, " (", base.layers,
                   " layers, width ", base.width, ")");
  if (config.width != base.width) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": ", both, ": different widths cannot fit, forced or not"));
  }
  if (config.fuse_layers[1] >= base.layers) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": ", both, ": fuse_layers [", config.fuse_layers[0], ", ", config.fuse_layers[1],
        "] must be layers 0 to ", base.layers - 1, " of the loaded model, forced or not"));
  }
  std::vector<std::string> mismatches;
  if (ModelName(config.base_model) != ModelName(base.name)) mismatches.push_back("another name");
  if (config.layers != base.layers) mismatches.push_back("another number of layers");
  if (mismatches.empty()) return mismatches;
  if (!force) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": ", both, ": ", absl::StrJoin(mismatches, " and "),
                     "; forcing it keeps the output correct but can be slower than no drafter"));
  }
  for (std::string& line : mismatches) {
    line = absl::StrCat(folder, ": forced although ", both, ": ", line,
                        "; the output stays correct but can be slower than without a drafter");
  }
  return mismatches;
}

}  // namespace tandem
