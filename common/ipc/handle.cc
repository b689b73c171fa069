#include "common/ipc/handle.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tandem::ipc {

std::string HandleBytes(const ExportHandle& handle) {
  if (handle.fd >= 0) return "";
  return std::string(reinterpret_cast<const char*>(handle.ipc), sizeof(handle.ipc));
}

absl::StatusOr<ExportHandle> HandleFrom(absl::string_view text, uint64_t bytes) {
  ExportHandle handle{.bytes = bytes};
  if (text.size() != sizeof(handle.ipc)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a handle of ", text.size(), " bytes, must have ", sizeof(handle.ipc)));
  }
  std::memcpy(handle.ipc, text.data(), text.size());
  return handle;
}

}  // namespace tandem::ipc
