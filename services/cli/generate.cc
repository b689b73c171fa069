#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/reply.h"
#include "services/cli/reply_printer.h"
#include "services/cli/request_options.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

struct GenerateOptions {
  std::string address = kDefaultAddress;
  std::string prompt, token_ids;
  bool has_prompt = false;
  bool chat = false;
  std::string system;
  std::string think = "off";
  std::string session;
  std::optional<uint64_t> position;
  bool show_drafts = false;
  bool json = false;
  std::string colour = "auto";
  RequestOptions request;
};

absl::StatusOr<std::string> PromptText(const GenerateOptions& options) {
  if (options.has_prompt && options.prompt != "-") return options.prompt;
  if (!options.has_prompt && isatty(STDIN_FILENO) == 1) {
    return absl::InvalidArgumentError(
        "no prompt: give it as an argument or on standard input; see tandem generate --help");
  }
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

absl::StatusOr<v1::TokenInput> ParseTokenIds(const std::string& text) {
  v1::TokenInput input;
  for (const auto& part : absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--token-ids: '", part, "' is not a token id"));
    }
    input.add_ids(id);
  }
  return input;
}

absl::Status SetInput(const GenerateOptions& options, v1::GenerateRequest& request) {
  if (!options.session.empty()) {
    request.mutable_session()->set_session_id(options.session);
    if (options.position) request.mutable_session()->set_expected_position(*options.position);
  }
  if (!options.token_ids.empty()) {
    ASSIGN_OR_RETURN(*request.mutable_tokens(), ParseTokenIds(options.token_ids));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string prompt, PromptText(options));
  if (!options.chat) {
    request.set_prompt_utf8(prompt);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(*request.mutable_chat(), MakeChat(options.system, prompt, options.think));
  return absl::OkStatus();
}

absl::Status RunGenerate(const GenerateOptions& options) {
  ASSIGN_OR_RETURN(v1::GenerateRequest request, MakeRequest(options.request));
  RETURN_IF_ERROR(SetInput(options, request));
  const Client client(options.address);
  grpc::ClientContext context;
  if (const auto timeout = options.request.timeout_seconds) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::microseconds(static_cast<int64_t>(*timeout * 1e6)));
  }
  Pieces pieces(&client);
  ReplyPrinter printer(
      {.show_drafts = options.show_drafts, .colour = UseColour(options.colour, STDOUT_FILENO)},
      &pieces);
  Reply reply;
  const absl::Status status =
      client.Generate(request, context, [&](const v1::GenerateResponse& event) {
        reply.Add(event);
        if (!options.json && event.has_delta()) printer.Print(event.delta());
      });
  if (options.json) {
    RETURN_IF_ERROR(status);
    WriteAll(STDOUT_FILENO,
             reply.ToJson().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return absl::OkStatus();
  }
  if (!reply.token_ids().empty()) WriteAll(STDOUT_FILENO, "\n");
  RETURN_IF_ERROR(status);
  if (options.show_drafts) std::fprintf(stderr, "%s\n", Summary(reply).c_str());
  return absl::OkStatus();
}

void AddInputOptions(CLI::App& app, GenerateOptions& options) {
  app.add_option("--token-ids", options.token_ids, "Token ids instead of text, as 70,854,743");
  app.add_flag("--chat", options.chat, "The prompt is a user's message, not text to continue");
  app.add_option("--system", options.system, "With --chat: the system's message");
  app.add_option("--think", options.think, "With --chat: off, on (reason first) or skip")
      ->check(CLI::IsMember({"off", "on", "skip"}))
      ->capture_default_str();
  app.add_option("--session", options.session, "Continue this session");
  app.add_option("--position", options.position, "Tokens that the session is expected to hold");
}

}  // namespace

Command MakeGenerateCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("generate", "Generate one reply and print it as it arrives");
  auto options = std::make_shared<GenerateOptions>();
  const CLI::Option* prompt = app->add_option(
      "prompt", options->prompt, "Text to continue; '-' or nothing reads standard input");
  app->add_option("--address", options->address, "Router to ask")->capture_default_str();
  AddInputOptions(*app, *options);
  app->add_flag("--show-drafts", options->show_drafts,
                "Mark text that came from accepted drafts, and print acceptance at the end");
  app->add_flag("--json", options->json, "Print one JSON object instead of text");
  AddColourOption(*app, options->colour);
  AddRequestOptions(*app, options->request);
  AddSamplingOptions(*app, options->request);
  AddStoppingOptions(*app, options->request);
  return {.app = app, .run = [options, prompt] {
            options->has_prompt = prompt->count() > 0;
            return RunGenerate(*options);
          }};
}

}  // namespace tandem::cli
