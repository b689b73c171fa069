#include "services/cli/command.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "services/cli/option_values.h"

namespace tandem::cli {

CLI::Option* AddAddressOption(CLI::App& app, std::string& address) {
  return app.add_option("--address", address, "Router to ask, host:port or unix:path")
      ->transform(Utf8Text())
      ->capture_default_str();
}

void AddColourOption(CLI::App& app, std::string& colour) {
  app.add_option("--color", colour, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
}

absl::string_view Version() { return TANDEM_VERSION; }

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

std::string ErrorLine(const absl::Status& status) {
  const absl::string_view message = status.message();
  const std::string text =
      message.empty() ? absl::StatusCodeToString(status.code()) : std::string(message);
  return absl::StrCat("tandem: ", absl::StrReplaceAll(text, {{"\r", " "}, {"\n", " "}}));
}

absl::Status AsUsageError(const absl::Status& status) {
  if (status.ok()) return status;
  return absl::InvalidArgumentError(status.message());
}

}  // namespace tandem::cli
