#include "services/cli/ready_file.h"

#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"

namespace tandem::cli {
namespace {

constexpr size_t kMaxBytes = 64 << 10;

// The program's file; empty for a process that has ended or belongs to somebody else.
std::filesystem::path Program(const std::string& process) {
  std::error_code gone;
  return std::filesystem::read_symlink(absl::StrCat("/proc/", process, "/exe"), gone).filename();
}

// A process id alone does not tell: ids are used again, in containers soon.
bool RunsThisProgram(int64_t pid) {
  return pid != getpid() && Program(absl::StrCat(pid)) == Program("self");
}

}  // namespace

absl::StatusOr<ReadyFile> ReadyFile::Claim(std::string path) {
  if (path.empty()) return ReadyFile("");
  const auto text = ReadFile(path, kMaxBytes);
  // An empty one is made by mktemp.
  if (text.ok() && !text->empty()) {
    const auto json = nlohmann::json::parse(*text, nullptr, false);
    if (!json.is_object() || !json.value("pid", nlohmann::json()).is_number_integer()) {
      return absl::FailedPreconditionError(absl::StrCat(
          path, " exists and is no ready file; remove it or name another --ready-file"));
    }
    if (RunsThisProgram(json["pid"].get<int64_t>())) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " belongs to the running process ", json["pid"].get<int64_t>(),
                       "; end that one or name another --ready-file"));
    }
    if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, absl::StrCat("cannot remove ", path));
  } else if (!text.ok() && !absl::IsNotFound(text.status())) {
    return text.status();
  }
  return ReadyFile(std::move(path));
}

ReadyFile::~ReadyFile() {
  if (written_) unlink(path_.c_str());
}

absl::Status ReadyFile::Write(absl::string_view json) {
  if (path_.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(WriteFileAtomically(path_, json));
  written_ = true;
  return absl::OkStatus();
}

}  // namespace tandem::cli
