#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

// A regular file mapped read-only for the life of the object.
class MappedFile final {
 public:
  // NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file), naming the path. An
  // empty file maps to an empty span.
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::Span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, const uint8_t* data, size_t size);
  std::string path_;
  const uint8_t* data_;
  size_t size_;
};

// The whole file as a string; at most `max_bytes`, else OUT_OF_RANGE.
absl::StatusOr<std::string> ReadFile(const std::string& path, size_t max_bytes);

// Reads /proc/sys/kernel/random/boot_id and similar one-line files, trimmed.
absl::StatusOr<std::string> ReadLine(const std::string& path);

// Writes a whole file at once: readers see the old or the new contents. An error names the path and
// leaves nothing behind.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view text);

// The absl code that fits an errno, with "<what>: <strerror>".
absl::Status ErrnoStatus(int error, absl::string_view what);

}  // namespace tandem
