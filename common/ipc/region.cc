#include "common/ipc/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem::ipc {
namespace {

absl::StatusOr<void*> MapShared(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return ErrnoStatus(errno, absl::StrCat("mapping ", bytes, " bytes of shared memory"));
  }
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Region>> Region::Create(const std::string& name, size_t bytes) {
  CHECK_GT(bytes, 0u);
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return ErrnoStatus(errno, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return ErrnoStatus(errno, absl::StrCat("sizing shared memory to ", bytes, " bytes"));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return ErrnoStatus(errno, "sealing shared memory");
  }
  ASSIGN_OR_RETURN(void* data, MapShared(fd.get(), bytes));
  return std::unique_ptr<Region>(new Region(std::move(fd), data, bytes));
}

absl::StatusOr<std::unique_ptr<Region>> Region::Map(UniqueFd fd, size_t bytes) {
  RETURN_IF_ERROR(CheckSealed(fd.get(), bytes));
  ASSIGN_OR_RETURN(void* data, MapShared(fd.get(), bytes));
  return std::unique_ptr<Region>(new Region(std::move(fd), data, bytes));
}

Region::~Region() { munmap(data_, bytes_); }

absl::Status CheckSealed(int fd, size_t bytes) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "shared memory descriptor");
  if (bytes == 0 || static_cast<uint64_t>(info.st_size) != bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory of ", info.st_size, " bytes where ", bytes, " were announced"));
  }
  const int seals = fcntl(fd, F_GET_SEALS);
  constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;
  if (seals < 0 || (seals & kFixedSize) != kFixedSize) {
    return absl::InvalidArgumentError(
        "shared memory that its owner could resize: not sealed against shrinking and growing");
  }
  return absl::OkStatus();
}

}  // namespace tandem::ipc
