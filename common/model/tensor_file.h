#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file.h"
#include "common/model/tensor_info.h"

namespace tandem {

// The tensors of one checkpoint (a torch .pth archive, a .safetensors file, or the shards of a
// model.safetensors.index.json), mapped read-only for the life of the object. Every tensor is
// contiguous and lies inside its file; no two tensors have the same name. Nothing stored in a file
// is executed.
class TensorFile final {
 public:
  // `path` names one of the three kinds by its suffix (.pth, .safetensors, .index.json). Errors
  // name the file and, where there is one, the tensor: NOT_FOUND, or INVALID_ARGUMENT for anything
  // that is not a sound file of its kind.
  static absl::StatusOr<std::unique_ptr<TensorFile>> Open(const std::string& path);
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const { return path_; }
  // Sorted by name.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // nullptr when absent.
  const TensorInfo* Find(absl::string_view name) const;
  // The value `scheme` of a quant_meta dictionary; empty when there is none.
  const std::string& quant_scheme() const { return quant_scheme_; }

 private:
  explicit TensorFile(std::string path) : path_(std::move(path)) {}
  absl::Status AddFile(const std::string& path);
  absl::Status AddShards();
  absl::Status Sort();

  std::string path_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<TensorInfo> tensors_;
  std::string quant_scheme_;
};

}  // namespace tandem
