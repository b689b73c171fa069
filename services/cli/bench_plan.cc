#include "services/cli/bench_plan.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "services/cli/option_values.h"

namespace tandem::cli {
namespace {

constexpr size_t kMaxPromptFile = 64 << 20;
constexpr int kMaxConcurrency = 1024;

absl::StatusOr<BenchPrompt> ParsePrompt(const std::string& line, int number,
                                        const std::string& path) {
  const std::string name = absl::StrCat("line ", number);
  if (const absl::Status utf8 = CheckUtf8(line); !utf8.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", number, ": ", utf8.message()));
  }
  if (line[0] != '{') return BenchPrompt{.name = name, .text = line};
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object() || !json.value("prompt", nlohmann::json()).is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ":", number, ": expected text or a JSON object with the string \"prompt\""));
  }
  BenchPrompt prompt{.name = name, .text = json["prompt"].get<std::string>()};
  if (json.contains("name") && json["name"].is_string()) prompt.name = json["name"];
  return prompt;
}

}  // namespace

std::vector<BenchPrompt> BuiltInPrompts() {
  return {
      {.name = "prose",
       .text = "To remove a package that is no longer needed, first make sure that"},
      {.name = "manual", .text = "NAME\n       cp - copy files and directories\n\nSYNOPSIS\n"},
      {.name = "code", .text = "import os\n\n\ndef read_lines(path):\n    \"\"\"Return"},
      {.name = "c++", .text = "#include <vector>\n\nint main() {\n  std::vector<int> values"},
      {.name = "japanese", .text = "このウィンドウでは、選択したセルの書式を"},
      {.name = "chinese", .text = "在此对话框中，您可以"},
      {.name = "chat", .text = "User: How do I print a document?\n\nAssistant:"},
      {.name = "proofread",
       .text = "User: Proofread the following text:\nThe file are saved in the folder that you "
               "have choose before.\n\nAssistant:"},
  };
}

absl::StatusOr<std::vector<BenchPrompt>> ReadPrompts(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxPromptFile));
  std::vector<BenchPrompt> prompts;
  int number = 0;
  for (const auto& piece : absl::StrSplit(text, '\n')) {
    ++number;
    const std::string line(absl::StripTrailingAsciiWhitespace(piece));
    if (line.empty()) continue;
    ASSIGN_OR_RETURN(BenchPrompt prompt, ParsePrompt(line, number, path));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty()) return absl::InvalidArgumentError(absl::StrCat(path, " holds no prompt"));
  return prompts;
}

absl::StatusOr<std::vector<int>> ParseConcurrency(const std::string& text) {
  std::vector<int> list;
  for (const auto& part : absl::StrSplit(text, ',')) {
    int value = 0;
    if (!absl::SimpleAtoi(part, &value) || value < 1 || value > kMaxConcurrency) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--concurrency '", text, "': '", part, "' is not a number from 1 to ", kMaxConcurrency));
    }
    list.push_back(value);
  }
  return list;
}

std::vector<int> BlockPrompts(int prompts, int concurrency, int block) {
  std::vector<int> indices;
  for (int i = 0; i < concurrency; ++i) indices.push_back((block * concurrency + i) % prompts);
  return indices;
}

int BlockCount(int prompts, int concurrency, int repeats) {
  return (prompts * repeats + concurrency - 1) / concurrency;
}

}  // namespace tandem::cli
