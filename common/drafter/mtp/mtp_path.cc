#include "common/drafter/mtp/mtp_path.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace tandem {

absl::StatusOr<std::optional<std::string>> ResolveMtpPath(const std::string& setting,
                                                          const std::string& model_folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (setting.empty()) {
    return absl::InvalidArgumentError("empty sidecar setting; expected auto, off or a folder");
  }
  if (setting == "off") return std::nullopt;
  if (setting == "auto") {
    const fs::path folder = fs::path(model_folder) / "mtp";
    if (!fs::is_directory(folder, error)) return std::nullopt;
    return folder.string();
  }
  if (!fs::is_regular_file(fs::path(setting) / "mtp.json", error)) {
    return absl::NotFoundError(absl::StrCat(
        setting, ": no sidecar here; expected a folder with mtp.json and mtp.safetensors"));
  }
  return setting;
}

}  // namespace tandem
