#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/tokenizer/vocabulary.h"

namespace tandem {

enum class Role { kSystem, kUser, kAssistant };

struct Message {
  Role role = Role::kUser;
  std::string content = {};
};

// How the answer is opened.
enum class ThinkMode {
  kOff,   // "Assistant:"
  kOn,    // "Assistant: <think": the model reasons first; ThinkSplitter parts reasoning from answer
  kFake,  // "Assistant: <think>\n</think": reasoning is shown as done, the model answers at once
};

// A hint behind the last user text, for ThinkMode::kOn only.
enum class ThinkLength {
  kUnsaid,
  kNormal,  // " (think)"
  kShort,   // " (think a bit)"
  kLong,    // " (think a lot)"
};

struct PromptOptions {
  ThinkMode think = ThinkMode::kOff;
  ThinkLength think_length = ThinkLength::kUnsaid;
  // System and user text: "\r\n" becomes "\n", runs of newlines become one, white space (ASCII)
  // around goes away, so that "\n\n" only separates turns. Switched off, user text can imitate a
  // turn.
  bool clean = true;
  // EncodeChat puts id 0 in front.
  bool begin_with_end_of_text = false;
};

// The G1 chat template: turns "User: ...", "Assistant: ...", "System: ..." with "\n\n" between
// them, then the opening of the answer. Neighbours of one role are joined with one newline.
// Assistant text is not cleaned; it follows "Assistant:" after exactly one space. INVALID_ARGUMENT:
// no messages, the last one is the assistant's, or think_length without ThinkMode::kOn.
absl::StatusOr<std::string> RenderChat(absl::Span<const Message> messages,
                                       const PromptOptions& options);

// Only the new turns of a conversation whose past is a resident state: the same text, but opened by
// the "\n\n" that parts it from the past. `newlines_held` (TrailingNewlines of what the state
// consumed) are left off the opening. Errors as RenderChat; CHECKs that newlines_held is in 0..2.
absl::StatusOr<std::string> RenderNextTurn(absl::Span<const Message> messages,
                                           const PromptOptions& options, int newlines_held);

// Number of newlines at the end of the decoded `ids`, at most 2. kEndOfText ends no line: it counts
// as empty text.
int TrailingNewlines(const Vocabulary& vocabulary, absl::Span<const int32_t> ids);

// RenderChat, encoded.
absl::StatusOr<std::vector<int32_t>> EncodeChat(const Vocabulary& vocabulary,
                                                absl::Span<const Message> messages,
                                                const PromptOptions& options);

// The stop texts of a chat: "\n\nUser:", "\nUser:", "\n\nSystem:".
std::vector<std::string> DefaultChatStops();

}  // namespace tandem
