#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status_macros.h"
#include "services/cli/client.h"
#include "services/cli/command.h"
#include "services/cli/line_input.h"
#include "services/cli/option_values.h"
#include "services/cli/reply.h"
#include "services/cli/reply_printer.h"
#include "services/cli/request_options.h"
#include "services/cli/statistics.h"
#include "services/cli/terminal.h"

namespace tandem::cli {
namespace {

struct ChatOptions {
  std::string address = kDefaultAddress;
  std::string system;
  std::string think = "off";
  bool show_drafts = false;
  std::string colour = "auto";
  RequestOptions request;
};

// Cancels a call when Ctrl-C comes, as long as the object lives.
class CancelOnInterrupt final {
 public:
  CancelOnInterrupt(LineInput& input, grpc::ClientContext& context)
      : done_fd_(eventfd(0, EFD_CLOEXEC)), thread_([this, &input, &context] {
          pollfd fds[2] = {{.fd = done_fd_, .events = POLLIN, .revents = 0},
                           {.fd = input.interrupt_fd(), .events = POLLIN, .revents = 0}};
          while (poll(fds, 2, -1) < 0 && errno == EINTR) continue;
          if (fds[1].revents == 0) return;
          input.TakeInterrupt();
          context.TryCancel();
        }) {}
  ~CancelOnInterrupt() {
    eventfd_write(done_fd_, 1);
    thread_.join();
    close(done_fd_);
  }

 private:
  int done_fd_;
  std::thread thread_;
};

// One conversation on one session of the server.
class Conversation final {
 public:
  Conversation(const ChatOptions& options, const Client& client, LineInput& input)
      : options_(options), client_(client), input_(input), pieces_(&client) {}

  absl::Status Open() {
    ASSIGN_OR_RETURN(session_, client_.OpenSession());
    position_ = session_.position();
    stats_ = {};
    last_.clear();
    return absl::OkStatus();
  }

  // An expired session, or one lost with its server, is no reason to complain at the end.
  void Close() { client_.CloseSession(session_.session_id()).IgnoreError(); }

  absl::Status Say(const std::string& text);
  std::string Stats() const;

 private:
  absl::StatusOr<v1::GenerateRequest> NextRequest(const std::string& text) const;

  const ChatOptions& options_;
  const Client& client_;
  LineInput& input_;
  Pieces pieces_;
  v1::Session session_;
  uint64_t position_ = 0;
  DraftCounts stats_;
  std::string last_;  // summary of the last reply
};

absl::StatusOr<v1::GenerateRequest> Conversation::NextRequest(const std::string& text) const {
  ASSIGN_OR_RETURN(v1::GenerateRequest request, MakeRequest(options_.request));
  request.mutable_session()->set_session_id(session_.session_id());
  request.mutable_session()->set_expected_position(position_);
  const std::string system = position_ == 0 ? options_.system : "";
  ASSIGN_OR_RETURN(*request.mutable_chat(), MakeChat(system, text, options_.think));
  return request;
}

absl::Status Conversation::Say(const std::string& text) {
  ASSIGN_OR_RETURN(const v1::GenerateRequest request, NextRequest(text));
  grpc::ClientContext context;
  ReplyPrinter printer(
      {.show_drafts = options_.show_drafts, .colour = UseColour(options_.colour, STDOUT_FILENO)},
      &pieces_);
  Reply reply;
  absl::Status status;
  {
    const CancelOnInterrupt cancel(input_, context);
    status = client_.Generate(request, context, [&](const v1::GenerateResponse& event) {
      reply.Add(event);
      if (event.has_delta()) printer.Print(event.delta());
    });
  }
  WriteAll(STDOUT_FILENO, "\n");
  if (absl::IsCancelled(status)) {
    // The session stays as it was before the message.
    std::fprintf(stderr, "(cancelled; the message is not part of the conversation)\n");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(status);
  position_ = reply.finished()->position();
  stats_.Add(reply.usage());
  last_ = Summary(reply);
  if (options_.show_drafts) std::fprintf(stderr, "%s\n", last_.c_str());
  return absl::OkStatus();
}

std::string Conversation::Stats() const {
  if (last_.empty()) return "no reply yet";
  return absl::StrCat("session ", session_.session_id(), " holds ", position_, " tokens; ",
                      stats_.generated, " generated in ", stats_.rounds,
                      " steps\nlast reply: ", last_);
}

void PrintPrompt() {
  if (isatty(STDIN_FILENO) == 1) WriteAll(STDOUT_FILENO, "> ");
}

// False at the end of the conversation.
absl::StatusOr<bool> HandleLine(Conversation& conversation, const std::string& line) {
  if (line == "/quit") return false;
  if (line.empty()) return true;
  if (line == "/reset") {
    conversation.Close();
    RETURN_IF_ERROR(conversation.Open());
    std::fprintf(stderr, "(new conversation)\n");
    return true;
  }
  if (line == "/stats") {
    std::fprintf(stderr, "%s\n", conversation.Stats().c_str());
    return true;
  }
  if (line[0] == '/') {
    std::fprintf(stderr, "(unknown command; there are /quit, /reset and /stats)\n");
    return true;
  }
  if (const absl::Status utf8 = CheckUtf8(line); !utf8.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the message is ", utf8.message()));
  }
  RETURN_IF_ERROR(conversation.Say(line));
  return true;
}

// Who sits at a terminal can try again; a script must learn of it.
bool GoesOn(const absl::StatusOr<bool>& result, absl::Status& status) {
  if (result.ok()) return *result;
  if (isatty(STDIN_FILENO) == 1) {
    std::fprintf(stderr, "%s\n", ErrorLine(result.status()).c_str());
    return true;
  }
  status = result.status();
  return false;
}

absl::Status RunChat(const ChatOptions& options) {
  ASSIGN_OR_RETURN(LineInput input, LineInput::Create());
  const Client client(options.address);
  Conversation conversation(options, client, input);
  RETURN_IF_ERROR(conversation.Open());
  if (isatty(STDIN_FILENO) == 1) {
    std::fprintf(
        stderr,
        "(/reset starts anew, /stats counts, /quit or Ctrl-D ends; Ctrl-C stops a reply)\n");
  }
  absl::Status status;
  for (;;) {
    PrintPrompt();
    const auto line = input.Read();
    if (!line) {
      if (isatty(STDIN_FILENO) == 1) WriteAll(STDOUT_FILENO, "\n");
      break;
    }
    if (!GoesOn(HandleLine(conversation, std::string(absl::StripAsciiWhitespace(*line))), status)) {
      break;
    }
  }
  conversation.Close();
  return status;
}

}  // namespace

Command MakeChatCommand(CLI::App& root) {
  CLI::App* app = root.add_subcommand("chat", "Talk to the model; the conversation is a session");
  auto options = std::make_shared<ChatOptions>();
  AddAddressOption(*app, options->address);
  app->add_option("--system", options->system, "The system's message")->transform(Utf8Text());
  app->add_option("--think", options->think, "off, on (reason first) or skip")
      ->check(CLI::IsMember({"off", "on", "skip"}))
      ->capture_default_str();
  app->add_flag("--show-drafts", options->show_drafts,
                "Mark text that came from accepted drafts, and print acceptance after each reply");
  AddColourOption(*app, options->colour);
  AddMaxDraftsOption(*app, options->request.max_drafts);
  AddSamplingOptions(*app, options->request);
  AddStoppingOptions(*app, options->request);
  return {.app = app, .run = [options] { return RunChat(*options); }};
}

}  // namespace tandem::cli
