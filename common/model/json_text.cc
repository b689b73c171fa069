#include "common/model/json_text.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;

}  // namespace

absl::StatusOr<json> ParseJsonObject(absl::string_view text, const std::string& file) {
  if (text.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": a JSON text of ", text.size(),
                                                   " bytes; at most ", kMaxJsonBytes, " are read"));
  }
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  bool too_deep = false;
  // Returning false drops a value, which keeps memory bounded once the text is known to be refused.
  const auto callback = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) too_deep = true;
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) repeated = key;
    }
    return !too_deep;
  };
  json value = json::parse(text.data(), text.data() + text.size(), callback,
                           /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": JSON nested deeper than ", kMaxDepth, " levels"));
  }
  if (!value.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": not a JSON object"));
  }
  if (!repeated.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": the key \"", repeated, "\" appears twice in one object"));
  }
  return value;
}

absl::StatusOr<json> ReadJsonObject(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxJsonBytes));
  return ParseJsonObject(text, path);
}

}  // namespace tandem
