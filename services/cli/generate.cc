#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/utf8_decoder.h"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/option_values.h"
#include "services/cli/reply.h"
#include "services/cli/reply_printer.h"
#include "services/cli/request_options.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

struct GenerateOptions {
  std::string address = kDefaultAddress;
  std::optional<std::string> prompt, token_ids;
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
  const bool read = !options.prompt || *options.prompt == "-";
  if (!options.prompt && isatty(STDIN_FILENO) == 1) {
    return absl::InvalidArgumentError(
        "no prompt: give it as an argument or on standard input; see tandem generate --help");
  }
  const std::string prompt =
      read ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : *options.prompt;
  // A session can go on without new text, but not with an empty message.
  if (prompt.empty() && (options.session.empty() || options.chat)) {
    return absl::InvalidArgumentError(
        absl::StrCat(read ? "standard input is empty" : "the prompt is empty",
                     ", so there is nothing to continue: give a text as an argument, or pipe one "
                     "into tandem generate"));
  }
  const absl::Status utf8 = CheckUtf8(prompt);
  if (utf8.ok()) return prompt;
  return absl::InvalidArgumentError(
      absl::StrCat(read ? "standard input: " : "prompt: ", utf8.message()));
}

absl::StatusOr<v1::TokenInput> ParseTokenIds(const std::string& text) {
  v1::TokenInput input;
  for (const auto& part : absl::StrSplit(text, absl::ByAnyChar(", "), absl::SkipEmpty())) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(part, &id)) {
      return absl::InvalidArgumentError(absl::StrCat("--token-ids: '", ReplaceInvalidUtf8(part),
                                                     "' is not a token id, as in 70,854,743"));
    }
    input.add_ids(id);
  }
  if (input.ids().empty()) {
    return absl::InvalidArgumentError("--token-ids: no ids; write them as 70,854,743");
  }
  return input;
}

absl::Status SetInput(const GenerateOptions& options, v1::GenerateRequest& request) {
  if (!options.session.empty()) {
    request.mutable_session()->set_session_id(options.session);
    if (options.position) request.mutable_session()->set_expected_position(*options.position);
  }
  if (options.token_ids) {
    ASSIGN_OR_RETURN(*request.mutable_tokens(), ParseTokenIds(*options.token_ids));
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
  context.set_deadline(absl::ToChronoTime(absl::Now() + options.request.timeout));
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
  CLI::Option* prompt = app.add_option("prompt", options.prompt,
                                       "Text to continue; '-' or nothing reads standard input");
  CLI::Option* chat =
      app.add_flag("--chat", options.chat, "The prompt is a user's message, not text to continue");
  app.add_option("--token-ids", options.token_ids, "Token ids instead of text, as 70,854,743")
      ->excludes(prompt, chat);
  app.add_option("--system", options.system, "With --chat: the system's message")
      ->transform(Utf8Text())
      ->needs(chat);
  app.add_option("--think", options.think, "With --chat: off, on (reason first) or skip")
      ->check(CLI::IsMember({"off", "on", "skip"}))
      ->capture_default_str()
      ->needs(chat);
  CLI::Option* session = app.add_option("--session", options.session, "Continue this session")
                             ->transform(Utf8Text(1, 128));
  app.add_option("--position", options.position,
                 "With --session: refuse unless it holds so many tokens")
      ->transform(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->needs(session);
}

}  // namespace

Command MakeGenerateCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("generate", "Generate one reply and print it as it arrives");
  auto options = std::make_shared<GenerateOptions>();
  AddInputOptions(*app, *options);
  AddAddressOption(*app, options->address);
  CLI::Option* json =
      app->add_flag("--json", options->json, "Print one JSON object instead of text");
  app->add_flag("--show-drafts", options->show_drafts,
                "Mark text that came from accepted drafts, and print acceptance at the end")
      ->excludes(json);
  AddColourOption(*app, options->colour);
  AddRequestOptions(*app, options->request);
  AddSamplingOptions(*app, options->request);
  AddStoppingOptions(*app, options->request);
  return {.app = app, .run = [options] { return RunGenerate(*options); }};
}

}  // namespace tandem::cli
