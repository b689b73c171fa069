#include "common/model/tensor_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model/pth/pth_reader.h"
#include "common/model/safetensors/safetensors_reader.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<TensorFile>> TensorFile::Open(const std::string& path) {
  std::unique_ptr<TensorFile> file(new TensorFile(path));
  if (absl::EndsWith(path, ".index.json")) {
    RETURN_IF_ERROR(file->AddShards());
  } else {
    RETURN_IF_ERROR(file->AddFile(path));
    RETURN_IF_ERROR(file->Sort());
  }
  return file;
}

absl::Status TensorFile::AddFile(const std::string& path) {
  const bool pth = absl::EndsWith(path, ".pth");
  if (!pth && !absl::EndsWith(path, ".safetensors")) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a weight file; expected .pth, .safetensors or .index.json"));
  }
  ASSIGN_OR_RETURN(auto mapped, MappedFile::Open(path));
  if (pth) {
    ASSIGN_OR_RETURN(auto contents, ReadPth(mapped->bytes(), path));
    std::move(contents.tensors.begin(), contents.tensors.end(), std::back_inserter(tensors_));
    quant_scheme_ = std::move(contents.quant_scheme);
  } else {
    ASSIGN_OR_RETURN(auto contents, ReadSafetensors(mapped->bytes(), path));
    std::move(contents.tensors.begin(), contents.tensors.end(), std::back_inserter(tensors_));
    if (!contents.quant_scheme.empty()) quant_scheme_ = std::move(contents.quant_scheme);
  }
  files_.push_back(std::move(mapped));
  return absl::OkStatus();
}

absl::Status TensorFile::AddShards() {
  ASSIGN_OR_RETURN(const auto shards, ReadShardIndex(path_));
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shards) names.insert(shard);
  for (const std::string& name : names) {
    const std::string path = (std::filesystem::path(path_).parent_path() / name).string();
    const size_t first = tensors_.size();
    RETURN_IF_ERROR(AddFile(path));
    for (size_t i = first; i < tensors_.size(); ++i) {
      const auto expected = shards.find(tensors_[i].name);
      if (expected == shards.end() || expected->second != name) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": tensor ", tensors_[i].name, ": ",
                         expected == shards.end() ? "not listed" : "listed in " + expected->second,
                         " by the index ", path_, "; expected it listed in ", name));
      }
    }
  }
  RETURN_IF_ERROR(Sort());
  for (const auto& [tensor, shard] : shards) {
    if (Find(tensor) == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": tensor ", tensor, ": missing from ",
                                                     shard, ", where the index expects it"));
    }
  }
  return absl::OkStatus();
}

absl::Status TensorFile::Sort() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const TensorInfo& a, const TensorInfo& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(tensors_.begin(), tensors_.end(),
                         [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  if (twice == tensors_.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(twice->file, ": tensor ", twice->name, ": appears twice; expected once"));
}

const TensorInfo* TensorFile::Find(absl::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorInfo& info, absl::string_view wanted) { return info.name < wanted; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

}  // namespace tandem
