#include "services/cli/mps_daemon.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "services/cli/child_process.h"

namespace tandem::cli {
namespace {

constexpr char kProgram[] = "nvidia-cuda-mps-control";
constexpr char kPipes[] = "CUDA_MPS_PIPE_DIRECTORY";
constexpr char kLogs[] = "CUDA_MPS_LOG_DIRECTORY";
constexpr absl::Duration kCallLimit = absl::Seconds(10);
constexpr absl::Duration kQuitLimit = absl::Seconds(10);
constexpr size_t kMaxText = 64 << 10;

bool Readable(int fd, absl::Duration timeout) {
  pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) > 0;
}

// What a short-lived program writes. UNAVAILABLE with it where the program fails.
absl::StatusOr<std::string> Output(const std::vector<std::string>& command) {
  ASSIGN_OR_RETURN(const auto process, ChildProcess::Start(command));
  const bool ended = Readable(process->exit_fd(), kCallLimit);
  // Not to the end of the pipe: a daemon may hold it open.
  std::string text(kMaxText, '\0');
  const ssize_t n = read(process->output_fd(), text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  absl::StripAsciiWhitespace(&text);
  if (!ended) return absl::UnavailableError(absl::StrCat(kProgram, " does not answer"));
  const auto exit = process->Reap();
  if (exit && exit->clean()) return text;
  return absl::UnavailableError(absl::StrCat(kProgram, " failed (",
                                             exit ? DescribeExit(*exit) : "lost",
                                             "): ", text.empty() ? "it said nothing" : text));
}

absl::StatusOr<pid_t> ReadPid(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadLine(path));
  int pid = 0;
  if (absl::SimpleAtoi(text, &pid) && pid > 1) return pid;
  return absl::UnavailableError(absl::StrCat(path, " holds no process id: ", text));
}

bool IsServer(pid_t pid) {
  // The kernel keeps 15 bytes of a name.
  const auto name = ReadLine(absl::StrCat("/proc/", pid, "/comm"));
  return name.ok() && absl::StartsWith(*name, "nvidia-cuda-mps");
}

}  // namespace

bool MpsDaemon::Installed() {
  const char* path = getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    if (access(absl::StrCat(folder, "/", kProgram).c_str(), X_OK) == 0) return true;
  }
  return false;
}

bool MpsDaemon::Named() { return getenv(kPipes) != nullptr; }

void MpsDaemon::UseNone(const std::string& folder) {
  setenv(kPipes, absl::StrCat(folder, "/no-mps").c_str(), 1);
}

absl::StatusOr<std::unique_ptr<MpsDaemon>> MpsDaemon::Start(const std::string& folder) {
  // Never a folder of one that has died: its server may still be there.
  std::string own = absl::StrCat(folder, "/mps-XXXXXX");
  if (mkdtemp(own.data()) == nullptr) return ErrnoStatus(errno, absl::StrCat("cannot make ", own));
  const std::string pipes = own + "/pipe", logs = own + "/log";
  std::error_code error;
  std::filesystem::create_directory(pipes, error);
  if (!error) std::filesystem::create_directory(logs, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make folders in ", own));
  setenv(kPipes, pipes.c_str(), 1);
  setenv(kLogs, logs.c_str(), 1);
  // Restricted to some GPUs, it would count them anew, and its clients would look for others.
  RETURN_IF_ERROR(Output({"env", "-u", "CUDA_VISIBLE_DEVICES", kProgram, "-d"}).status());
  ASSIGN_OR_RETURN(const pid_t pid, ReadPid(absl::StrCat(pipes, "/", kProgram, ".pid")));
  const int exit_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (exit_fd < 0) return ErrnoStatus(errno, absl::StrCat("cannot watch ", kProgram));
  return std::unique_ptr<MpsDaemon>(new MpsDaemon(std::move(own), pid, exit_fd));
}

MpsDaemon::~MpsDaemon() {
  if (!Ended(absl::ZeroDuration())) {
    // Whether it obeys shows below.
    Ask("quit").IgnoreError();
    if (!Ended(kQuitLimit)) kill(pid_, SIGKILL);
  }
  for (const pid_t server : servers_) {
    if (IsServer(server)) kill(server, SIGKILL);
  }
  close(exit_fd_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void MpsDaemon::TerminateClient(pid_t client) {
  NoteServers();
  // One per user: of several, all but the client's own refuse.
  for (const pid_t server : servers_) {
    Ask(absl::StrCat("terminate_client ", server, " ", client)).IgnoreError();
  }
}

void MpsDaemon::NoteServers() {
  const auto answer = Ask("get_server_list");
  if (!answer.ok()) return;
  servers_.clear();
  for (const absl::string_view word : absl::StrSplit(*answer, absl::ByAnyChar(" \n"))) {
    int pid = 0;
    if (absl::SimpleAtoi(word, &pid) && pid > 1) servers_.push_back(pid);
  }
}

absl::StatusOr<std::string> MpsDaemon::Ask(absl::string_view line) {
  const std::string path = folder_ + "/question";
  RETURN_IF_ERROR(WriteFileAtomically(path, absl::StrCat(line, "\n")));
  return Output({"sh", "-c", absl::StrCat("exec ", kProgram, " < \"$0\""), path});
}

bool MpsDaemon::Ended(absl::Duration timeout) const { return Readable(exit_fd_, timeout); }

}  // namespace tandem::cli
