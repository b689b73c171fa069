#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::cli {

// A new directory that only this user can enter, under XDG_RUNTIME_DIR, else TMPDIR, else /tmp.
// Removed with its contents by the destructor; what a process that was killed has left is removed
// by the next Create of the same user.
class RuntimeDirectory final {
 public:
  static absl::StatusOr<RuntimeDirectory> Create();
  ~RuntimeDirectory();
  RuntimeDirectory(RuntimeDirectory&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_fd_(std::exchange(other.lock_fd_, -1)) {}
  RuntimeDirectory& operator=(RuntimeDirectory&&) = delete;

  const std::string& path() const { return path_; }
  std::string File(absl::string_view name) const;

 private:
  RuntimeDirectory(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  std::string path_;
  int lock_fd_;  // of the directory, locked while its owner lives
};

}  // namespace tandem::cli
