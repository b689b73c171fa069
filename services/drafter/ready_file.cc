#include "services/drafter/ready_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"

namespace tandem {

absl::Status WriteReadyFile(const std::string& path, const std::string& metrics_address) {
  if (path.empty()) return absl::OkStatus();
  const std::string temporary = absl::StrCat(path, ".", getpid());
  std::ofstream out(temporary);
  // Addresses hold nothing that JSON escapes.
  out << absl::StrCat("{\"process\":\"drafter\",\"pid\":", getpid(),
                      ",\"address\":\"\",\"port\":0,\"metrics_address\":\"", metrics_address,
                      "\"}\n");
  out.close();
  if (!out.good() || rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("cannot write --ready-file ", path));
  }
  return absl::OkStatus();
}

}  // namespace tandem
