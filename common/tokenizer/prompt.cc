#include "common/tokenizer/prompt.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace tandem {
namespace {

constexpr absl::string_view kTurnSeparator = "\n\n";

std::string Clean(const std::string& text) {
  const std::string unix_text = absl::StrReplaceAll(text, {{"\r\n", "\n"}});
  std::string cleaned;
  for (const char c : unix_text) {
    if (c == '\n' && !cleaned.empty() && cleaned.back() == '\n') continue;
    cleaned.push_back(c);
  }
  absl::StripAsciiWhitespace(&cleaned);
  return cleaned;
}

std::string Content(const Message& message, bool clean) {
  if (message.role != Role::kAssistant) return clean ? Clean(message.content) : message.content;
  const size_t spaces = std::min(message.content.find_first_not_of(' '), message.content.size());
  return message.content.substr(spaces);
}

absl::string_view Header(Role role) {
  switch (role) {
    case Role::kSystem:
      return "System: ";
    case Role::kUser:
      return "User: ";
    case Role::kAssistant:
      return "Assistant: ";
  }
  return {};
}

absl::string_view LengthHint(ThinkLength length) {
  switch (length) {
    case ThinkLength::kUnsaid:
      return "";
    case ThinkLength::kNormal:
      return " (think)";
    case ThinkLength::kShort:
      return " (think a bit)";
    case ThinkLength::kLong:
      return " (think a lot)";
  }
  return {};
}

absl::string_view AnswerOpening(ThinkMode think) {
  switch (think) {
    case ThinkMode::kOff:
      return "Assistant:";
    case ThinkMode::kOn:
      return "Assistant: <think";
    case ThinkMode::kFake:
      return "Assistant: <think>\n</think";
  }
  return {};
}

}  // namespace

absl::StatusOr<std::string> RenderChat(absl::Span<const Message> messages,
                                       const PromptOptions& options) {
  if (messages.empty())
    return absl::InvalidArgumentError("messages must hold at least one message");
  if (messages.back().role == Role::kAssistant) {
    return absl::InvalidArgumentError(
        "the last of the messages must be the user's or the system's, it is the assistant's");
  }
  if (options.think_length != ThinkLength::kUnsaid && options.think != ThinkMode::kOn) {
    return absl::InvalidArgumentError("a length of thinking needs the think mode on");
  }
  std::string text;
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool same_turn = i > 0 && messages[i].role == messages[i - 1].role;
    if (i > 0) absl::StrAppend(&text, same_turn ? "\n" : kTurnSeparator);
    if (!same_turn) absl::StrAppend(&text, Header(messages[i].role));
    absl::StrAppend(&text, Content(messages[i], options.clean));
  }
  if (messages.back().role == Role::kUser) {
    absl::StrAppend(&text, LengthHint(options.think_length));
  }
  absl::StrAppend(&text, kTurnSeparator, AnswerOpening(options.think));
  return text;
}

absl::StatusOr<std::string> RenderNextTurn(absl::Span<const Message> messages,
                                           const PromptOptions& options, int newlines_held) {
  CHECK(newlines_held >= 0 && newlines_held <= 2) << newlines_held;
  ASSIGN_OR_RETURN(const std::string turns, RenderChat(messages, options));
  return absl::StrCat(kTurnSeparator.substr(static_cast<size_t>(newlines_held)), turns);
}

int TrailingNewlines(const Vocabulary& vocabulary, absl::Span<const int32_t> ids) {
  int newlines = 0;
  for (size_t i = ids.size(); i > 0; --i) {
    const absl::string_view bytes = vocabulary.Bytes(ids[i - 1]);
    for (size_t j = bytes.size(); j > 0; --j) {
      if (bytes[j - 1] != '\n' || newlines == 2) return newlines;
      ++newlines;
    }
  }
  return newlines;
}

absl::StatusOr<std::vector<int32_t>> EncodeChat(const Vocabulary& vocabulary,
                                                absl::Span<const Message> messages,
                                                const PromptOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, RenderChat(messages, options));
  std::vector<int32_t> ids = vocabulary.Encode(text);
  if (options.begin_with_end_of_text) ids.insert(ids.begin(), kEndOfText);
  return ids;
}

std::vector<std::string> DefaultChatStops() { return {"\n\nUser:", "\nUser:", "\n\nSystem:"}; }

}  // namespace tandem
