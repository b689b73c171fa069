#include "services/cli/runtime_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem::cli {
namespace {

// Addresses of unix sockets hold 107 bytes; this leaves room for the names in the directory.
constexpr size_t kMaxBase = 64;
constexpr char kPrefix[] = "tandem-";
constexpr char kMark[] = "owner";  // holds the process id, for people

std::string Base() {
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = getenv(variable);
    if (value == nullptr || value[0] != '/' || std::string(value).size() > kMaxBase) continue;
    if (access(value, W_OK | X_OK) == 0) return value;
  }
  return "/tmp";
}

// An open description of the directory with the lock of its owner; -1 without it. The kernel drops
// the lock when the owner ends, however it ends.
int LockDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

// Only a directory of this user that carries the mark: it gets that once it is locked.
bool IsOurs(const std::string& path) {
  struct stat mark;
  return lstat(absl::StrCat(path, "/", kMark).c_str(), &mark) == 0 && mark.st_uid == geteuid();
}

void RemoveAbandoned(const std::string& base) {
  // What cannot be read or removed stays; there is nobody to tell.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(base, ignored)) {
    const std::string path = entry.path().string();
    if (!absl::StartsWith(entry.path().filename().string(), kPrefix) || !IsOurs(path)) continue;
    const int fd = LockDirectory(path);
    if (fd < 0) continue;
    std::filesystem::remove_all(path, ignored);
    close(fd);
  }
}

}  // namespace

absl::StatusOr<RuntimeDirectory> RuntimeDirectory::Create() {
  const std::string base = Base();
  RemoveAbandoned(base);
  std::string path = absl::StrCat(base, "/", kPrefix, "XXXXXX");
  // mkdtemp makes it with mode 0700.
  if (mkdtemp(path.data()) == nullptr)
    return ErrnoStatus(errno, absl::StrCat("cannot make ", path));
  RuntimeDirectory directory(path, LockDirectory(path));
  if (directory.lock_fd_ < 0) return ErrnoStatus(errno, absl::StrCat("cannot lock ", path));
  RETURN_IF_ERROR(WriteFileAtomically(directory.File(kMark), absl::StrCat(getpid(), "\n")));
  return directory;
}

RuntimeDirectory::~RuntimeDirectory() {
  if (path_.empty()) return;
  // What cannot be removed stays; there is nobody to tell.
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (lock_fd_ >= 0) close(lock_fd_);
}

std::string RuntimeDirectory::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

}  // namespace tandem::cli
