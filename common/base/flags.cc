#include "common/base/flags.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"

namespace tandem {
namespace {

// Flags are spelled with dashes on the command line and with underscores in the code.
void UseUnderscores(char* argument) {
  if (argument[0] != '-') return;
  char* name = argument + (argument[1] == '-' ? 2 : 1);
  for (; *name != '\0' && *name != '='; ++name) {
    if (*name == '-') *name = '_';
  }
}

// Of --help: the flags of the service's own main file, not those of libraries.
void ShowOwnFlags() {
  const auto own = [](absl::string_view file) { return absl::EndsWith(file, "/main.cc"); };
  absl::FlagsUsageConfig config;
  config.contains_helpshort_flags = own;
  config.contains_help_flags = own;
  absl::SetFlagsUsageConfig(config);
}

std::string Spelled(const std::string& name) {
  return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
}

}  // namespace

void ParseServiceFlags(int argc, char** argv, const std::string& name, const std::string& usage) {
  SetLogName(name);
  absl::SetProgramUsageMessage(usage);
  ShowOwnFlags();
  for (int i = 1; i < argc; ++i) UseUnderscores(argv[i]);
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::fprintf(stderr, "%s: unexpected argument '%s'; see --help\n", name.c_str(), rest[1]);
    std::exit(2);
  }
}

std::string FromEnvironment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

absl::Status CheckFlag(const std::string& name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Spelled(name), "=", value, ": must be from ", low, " to ", high));
}

absl::Status CheckPositive(const std::string& name, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Spelled(name), "=", absl::FormatDuration(value), ": must be above 0"));
}

}  // namespace tandem
