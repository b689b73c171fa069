#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem::cli {

// One subcommand: its options are registered with `app`; `run` reads what the command line set.
struct Command {
  CLI::App* app = nullptr;
  // OK, or an error whose message is one line that says what to do.
  std::function<absl::Status()> run = {};
};

// Each adds its subcommand to `root`, which must outlive it.
Command MakeUpCommand(CLI::App& root);
Command MakeGenerateCommand(CLI::App& root);
Command MakeChatCommand(CLI::App& root);
Command MakeInspectCommand(CLI::App& root);
Command MakeBenchCommand(CLI::App& root);

// --address: the router to ask.
CLI::Option* AddAddressOption(CLI::App& app, std::string& address);

// --color: auto, always or never, for UseColour.
void AddColourOption(CLI::App& app, std::string& colour);

// The version of this build, "0.1.0".
absl::string_view Version();

// 0 for OK, 2 for INVALID_ARGUMENT (a wrong command line, model or prompt), 1 for everything else.
int ExitCode(const absl::Status& status);

// "tandem: <message>", on one line whatever the message holds.
std::string ErrorLine(const absl::Status& status);

// The same error as INVALID_ARGUMENT: the user named something that is not usable.
absl::Status AsUsageError(const absl::Status& status);

}  // namespace tandem::cli
