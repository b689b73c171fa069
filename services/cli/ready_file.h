#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::cli {

// The file by which `tandem up` tells others where it serves: there while all are ready, removed by
// the destructor. It is JSON with the "pid" of the process that wrote it, so that a reader can tell
// a file whose process was killed.
class ReadyFile final {
 public:
  // Removes what a process that has ended left at `path`. An empty path: no file is written.
  // FAILED_PRECONDITION when it holds something else, or another running process of this program
  // wrote it; it keeps its file.
  static absl::StatusOr<ReadyFile> Claim(std::string path);
  ~ReadyFile();
  ReadyFile(ReadyFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), written_(std::exchange(other.written_, false)) {}
  ReadyFile& operator=(ReadyFile&&) = delete;

  absl::Status Write(absl::string_view json);

 private:
  explicit ReadyFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
  bool written_ = false;
};

}  // namespace tandem::cli
