#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::cli {

// A new directory that only this user can enter, under XDG_RUNTIME_DIR, else TMPDIR, else /tmp.
// Removed with its contents by the destructor.
class RuntimeDirectory final {
 public:
  static absl::StatusOr<RuntimeDirectory> Create();
  ~RuntimeDirectory();
  RuntimeDirectory(RuntimeDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  RuntimeDirectory& operator=(RuntimeDirectory&&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;

 private:
  explicit RuntimeDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tandem::cli
