#include "common/model/model_path.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSafetensorsName[] = "model.safetensors";

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

absl::StatusOr<std::string> FindCheckpoint(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!IsFile(entries->path())) continue;
    if (absl::EndsWith(name, ".pth") || name == kIndexName || name == kSafetensorsName) {
      found.push_back(name);
    }
  }
  if (error) {
    return absl::PermissionDeniedError(
        absl::StrCat(folder, ": the folder cannot be read: ", error.message()));
  }
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(folder,
                                            ": no model in this folder; expected one .pth, ",
                                            kSafetensorsName, " or ", kIndexName));
  }
  if (found.size() > 1) {
    std::sort(found.begin(), found.end());
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": ", found.size(), " models in this folder (",
                     absl::StrJoin(found, ", "), "); name one of them as the model path"));
  }
  return (fs::path(folder) / found[0]).string();
}

std::string FolderName(const fs::path& folder) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(folder, error);
  return ModelName((error ? folder : absolute).string());
}

}  // namespace

std::string ModelName(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (const size_t slash = name.rfind('/'); slash != std::string::npos) name.erase(0, slash + 1);
  return std::string(absl::StripSuffix(name, ".pth"));
}

absl::StatusOr<ModelPath> ResolveModelPath(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path.empty() ? "(empty model path)" : path,
                                            ": no such file or folder; expected a model"));
  }
  ModelPath result = {.checkpoint = path, .folder = {}, .name = {}, .vocab = {}, .hf_config = {}};
  if (fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(result.checkpoint, FindCheckpoint(path));
  }
  const fs::path checkpoint = result.checkpoint;
  const fs::path folder = checkpoint.has_parent_path() ? checkpoint.parent_path() : fs::path(".");
  const std::string file = checkpoint.filename().string();
  result.folder = folder.string();
  const bool named_by_folder = file == kSafetensorsName || file == kIndexName;
  result.name = named_by_folder ? FolderName(folder)
                                : std::string(absl::StripSuffix(ModelName(file), ".safetensors"));
  for (const char* name : {"rwkv_vocab_v20230424.txt", "vocab.txt"}) {
    if (IsFile(folder / name)) result.vocab = (folder / name).string();
  }
  if (!absl::EndsWith(file, ".pth") && IsFile(folder / "config.json")) {
    result.hf_config = (folder / "config.json").string();
  }
  return result;
}

}  // namespace tandem
