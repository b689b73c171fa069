#include "services/cli/runtime_directory.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace tandem::cli {
namespace {

// Addresses of unix sockets hold 107 bytes; this leaves room for the names in the directory.
constexpr size_t kMaxBase = 64;

std::string Base() {
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = getenv(variable);
    if (value == nullptr || value[0] != '/' || std::string(value).size() > kMaxBase) continue;
    if (access(value, W_OK | X_OK) == 0) return value;
  }
  return "/tmp";
}

}  // namespace

absl::StatusOr<RuntimeDirectory> RuntimeDirectory::Create() {
  std::string path = absl::StrCat(Base(), "/tandem-XXXXXX");
  // mkdtemp makes it with mode 0700.
  if (mkdtemp(path.data()) == nullptr)
    return ErrnoStatus(errno, absl::StrCat("cannot make ", path));
  return RuntimeDirectory(std::move(path));
}

RuntimeDirectory::~RuntimeDirectory() {
  if (path_.empty()) return;
  // What cannot be removed stays; there is nobody to tell.
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string RuntimeDirectory::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

}  // namespace tandem::cli
