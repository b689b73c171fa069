#include "services/cli/resolve_backend.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/model/open_backend.h"

namespace tandem::cli {
namespace {

// A driver that has to be loaded takes its time.
constexpr absl::Duration kLimit = absl::Minutes(1);

enum Answer : int { kCpu = 10, kCuda = 11, kNone = 12 };

Answer Try(const std::string& wanted) {
  const auto opened = OpenBackend(wanted, /*threads=*/1);
  if (!opened.ok()) {
    LOG(WARNING) << opened.status().message();
    return kNone;
  }
  return absl::string_view(opened->backend->name()) == "cuda" ? kCuda : kCpu;
}

}  // namespace

absl::StatusOr<std::string> ResolveBackend(const std::string& wanted) {
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "cannot look for a GPU");
  if (pid == 0) _exit(Try(wanted));
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd ended = {.fd = fd, .events = POLLIN, .revents = 0};
  if (fd < 0 || poll(&ended, 1, static_cast<int>(absl::ToInt64Milliseconds(kLimit))) <= 0) {
    kill(pid, SIGKILL);
  }
  if (fd >= 0) close(fd);
  int status = 0;
  waitpid(pid, &status, 0);
  const int answer = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  if (answer == kCuda) return "cuda";
  if (answer == kCpu) return "cpu";
  return absl::FailedPreconditionError(
      absl::StrCat("--backend=", wanted, " cannot be used here",
                   WIFSIGNALED(status) ? absl::StrCat(" (signal ", WTERMSIG(status), ")") : ""));
}

}  // namespace tandem::cli
