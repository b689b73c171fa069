#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ipc/unique_fd.h"

namespace tandem::ipc {

// Host memory that two processes map: an anonymous file whose size is sealed, so that a peer can
// neither shrink it under a reader nor grow it.
class Region final {
 public:
  // Zeroed memory of `bytes` > 0; `name` shows in /proc/<pid>/maps. RESOURCE_EXHAUSTED when there
  // is not enough.
  static absl::StatusOr<std::unique_ptr<Region>> Create(const std::string& name, size_t bytes);
  // Maps a descriptor that came from another process, after CheckSealed. The region keeps the
  // descriptor.
  static absl::StatusOr<std::unique_ptr<Region>> Map(UniqueFd fd, size_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }

 private:
  Region(UniqueFd fd, void* data, size_t bytes) : fd_(std::move(fd)), data_(data), bytes_(bytes) {}
  UniqueFd fd_;
  void* data_;
  size_t bytes_;
};

// OK when `fd` is a memory file of exactly `bytes` whose size can never change. INVALID_ARGUMENT
// otherwise: a mapping of it could fault at any time.
absl::Status CheckSealed(int fd, size_t bytes);

}  // namespace tandem::ipc
