#include "common/ipc/identity.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem::ipc {

absl::StatusOr<Identity> OwnIdentity(const std::string& backend, const std::string& device_uuid) {
  Identity identity;
  ASSIGN_OR_RETURN(identity.boot_id, ReadLine("/proc/sys/kernel/random/boot_id"));
  struct stat info = {};
  if (stat("/proc/self/ns/pid", &info) != 0) return ErrnoStatus(errno, "/proc/self/ns/pid");
  identity.pid_namespace = info.st_ino;
  identity.pid = getpid();
  identity.uid = getuid();
  identity.backend = backend;
  identity.device_uuid = device_uuid;
  return identity;
}

absl::StatusOr<UniqueFd> OpenPidfd(int64_t pid) {
  UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (fd.valid()) return fd;
  if (errno == ESRCH) return absl::NotFoundError(absl::StrCat("no process ", pid));
  return ErrnoStatus(errno, absl::StrCat("pidfd_open of process ", pid));
}

bool HasEnded(const UniqueFd& pidfd) {
  pollfd entry = {.fd = pidfd.get(), .events = POLLIN, .revents = 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

}  // namespace tandem::ipc
