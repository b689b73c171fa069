#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/tokenizer/utf8_decoder.h"
#include "services/cli/command.h"

namespace tandem::cli {
namespace {

// What is wrong with words that no option or command took.
std::string DescribeExtras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining(true);
  for (const std::string& word : extras) {
    if (word.size() > 1 && word[0] == '-') return absl::StrCat("there is no option ", word);
  }
  return absl::StrCat("'", extras.empty() ? "" : extras.back(),
                      "' is one argument too many; put quotes around a text of several words");
}

std::string Describe(const CLI::App& app, const CLI::ParseError& error) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) return DescribeExtras(app);
  return error.what();
}

// Help and version go to stdout and succeed; anything else is one line.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  std::string where = "tandem";
  for (const CLI::App* command : app.get_subcommands())
    absl::StrAppend(&where, " ", command->get_name());
  const absl::Status status = absl::InvalidArgumentError(
      ReplaceInvalidUtf8(absl::StrCat(Describe(app, error), "; see ", where, " --help")));
  std::fprintf(stderr, "%s\n", ErrorLine(status).c_str());
  return ExitCode(status);
}

// Empty, or what is wrong with the first word.
std::string CheckCommand(const CLI::App& app, const std::string& word) {
  if (absl::StartsWith(word, "-")) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == word) return "";
    names.push_back(command->get_name());
  }
  return absl::StrCat(
      word.empty() ? "no command" : absl::StrCat("there is no command '", word, "'"),
      "; there are ", absl::StrJoin(names, ", "), "; see tandem --help");
}

int Main(int argc, char** argv) {
  CLI::App app("Exact speculative decoding of RWKV-7: start it, use it, measure it.", "tandem");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  const std::vector<Command> commands = {MakeUpCommand(app), MakeGenerateCommand(app),
                                         MakeChatCommand(app), MakeInspectCommand(app),
                                         MakeBenchCommand(app)};
  if (const std::string wrong = CheckCommand(app, argc > 1 ? argv[1] : ""); !wrong.empty()) {
    std::fprintf(stderr, "%s\n",
                 ErrorLine(absl::InvalidArgumentError(ReplaceInvalidUtf8(wrong))).c_str());
    return 2;
  }
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
