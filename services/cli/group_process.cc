#include "services/cli/group_process.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "services/cli/group.h"
#include "services/cli/line_buffer.h"

namespace tandem::cli {
namespace {

constexpr absl::Duration kStopLimit = absl::Seconds(60);
constexpr absl::Duration kReadyPoll = absl::Milliseconds(20);
constexpr size_t kMaxReadyBytes = 64 << 10;

bool WaitReadable(int fd, absl::Duration timeout) {
  pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupProcess>> GroupProcess::Start(
    const std::string& model, const std::vector<std::string>& flags) {
  ASSIGN_OR_RETURN(RuntimeDirectory runtime, RuntimeDirectory::Create());
  auto group = std::unique_ptr<GroupProcess>(new GroupProcess(std::move(runtime)));
  ASSIGN_OR_RETURN(const std::string folder, OwnFolder());
  std::vector<std::string> command = {
      absl::StrCat(folder, "/tandem"),
      "up",
      absl::StrCat("--model=", model),
      "--address=127.0.0.1:0",
      "--color=never",
      absl::StrCat("--ready-file=", group->runtime_.File("ready.json"))};
  command.insert(command.end(), flags.begin(), flags.end());
  ASSIGN_OR_RETURN(group->process_, ChildProcess::Start(command));
  group->StartLogReader();
  RETURN_IF_ERROR(group->WaitReady());
  return group;
}

void GroupProcess::StartLogReader() {
  log_reader_ = std::thread([this, fd = process_->output_fd()] {
    LineBuffer lines;
    char buffer[16 << 10];
    // The pipe ends when the group and all its children have ended.
    while (WaitReadable(fd, absl::Hours(24))) {
      const ssize_t n = read(fd, buffer, sizeof(buffer));
      if (n <= 0) return;
      for (std::string& line : lines.Append({buffer, static_cast<size_t>(n)})) {
        last_line_ = std::move(line);
      }
    }
  });
}

absl::Status GroupProcess::WaitReady() {
  for (;;) {
    const auto text = ReadFile(runtime_.File("ready.json"), kMaxReadyBytes);
    if (text.ok()) return ReadReadyFile(*text);
    if (!WaitReadable(process_->exit_fd(), kReadyPoll)) continue;
    const auto exit = process_->Reap();
    log_reader_.join();
    const std::string message =
        absl::StrCat("the group could not start: ", absl::StripPrefix(last_line_, "tandem: "));
    return exit && exit->code == 2 ? absl::InvalidArgumentError(message)
                                   : absl::UnavailableError(message);
  }
}

absl::Status GroupProcess::ReadReadyFile(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json.contains("verifier")) {
    return absl::InternalError(absl::StrCat("the group wrote a strange ready file: ", text));
  }
  address_ = json["address"].get<std::string>();
  verifier_ = json["verifier"].get<std::string>();
  return absl::OkStatus();
}

GroupProcess::~GroupProcess() {
  if (process_ == nullptr) return;
  process_->Signal(SIGTERM);
  if (!WaitReadable(process_->exit_fd(), kStopLimit)) process_->Signal(SIGKILL);
  if (log_reader_.joinable()) log_reader_.join();
}

}  // namespace tandem::cli
