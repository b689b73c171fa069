#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/command.h"

namespace tandem::cli {
namespace {

// Help and version go to stdout and succeed; anything else is one line.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::string where = "tandem";
  for (const CLI::App* command : app.get_subcommands())
    absl::StrAppend(&where, " ", command->get_name());
  const absl::Status status =
      absl::InvalidArgumentError(absl::StrCat(error.what(), "; see ", where, " --help"));
  std::fprintf(stderr, "%s\n", ErrorLine(status).c_str());
  return ExitCode(status);
}

int Main(int argc, char** argv) {
  CLI::App app("Exact speculative decoding of RWKV-7: start it, use it, measure it.", "tandem");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  const std::vector<Command> commands = {MakeUpCommand(app), MakeGenerateCommand(app),
                                         MakeChatCommand(app), MakeInspectCommand(app),
                                         MakeBenchCommand(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error);
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const absl::Status status = command.run();
    if (!status.ok()) std::fprintf(stderr, "%s\n", ErrorLine(status).c_str());
    return ExitCode(status);
  }
  return 0;
}

}  // namespace
}  // namespace tandem::cli

int main(int argc, char** argv) { return tandem::cli::Main(argc, argv); }
