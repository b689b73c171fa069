#include "services/router/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "common/tokenizer/prompt.h"
#include "common/tokenizer/utf8_decoder.h"

namespace tandem {
namespace {

using Ids = std::vector<uint32_t>;

Ids ToIds(const std::vector<int32_t>& ids) { return Ids(ids.begin(), ids.end()); }

ThinkMode ToThinkMode(v1::ThinkMode think) {
  if (think == v1::THINK_MODE_ON) return ThinkMode::kOn;
  return think == v1::THINK_MODE_SKIP ? ThinkMode::kFake : ThinkMode::kOff;
}

Role ToRole(v1::Role role) {
  if (role == v1::ROLE_SYSTEM) return Role::kSystem;
  return role == v1::ROLE_USER ? Role::kUser : Role::kAssistant;
}

absl::StatusOr<Ids> EncodeText(absl::string_view field, const std::string& text,
                               const Vocabulary& vocabulary) {
  if (!IsValidUtf8(text)) return FieldError(field, "is not valid UTF-8");
  return ToIds(vocabulary.Encode(text));
}

// The last newlines of `history`, as RenderNextTurn wants them; two tokens cannot hold fewer than
// two newlines if the whole history ends in two, except for tokens without text.
int HeldNewlines(const Vocabulary& vocabulary, absl::Span<const uint32_t> history) {
  const absl::Span<const uint32_t> tail =
      history.subspan(history.size() - std::min<size_t>(history.size(), 4));
  return TrailingNewlines(vocabulary, std::vector<int32_t>(tail.begin(), tail.end()));
}

absl::StatusOr<Ids> EncodeChatInput(const v1::ChatInput& chat, const Vocabulary& vocabulary,
                                    absl::Span<const uint32_t> history) {
  std::vector<Message> messages;
  messages.reserve(chat.messages_size());
  for (const v1::ChatMessage& message : chat.messages()) {
    messages.push_back({.role = ToRole(message.role()), .content = message.content()});
  }
  const PromptOptions options = {.think = ToThinkMode(chat.think()),
                                 .clean = !chat.has_clean_text() || chat.clean_text()};
  if (history.empty()) {
    const auto ids = EncodeChat(vocabulary, messages, options);
    if (!ids.ok()) return FieldError("chat.messages", ids.status().message());
    return ToIds(*ids);
  }
  const auto text = RenderNextTurn(messages, options, HeldNewlines(vocabulary, history));
  if (!text.ok()) return FieldError("chat.messages", text.status().message());
  return ToIds(vocabulary.Encode(*text));
}

absl::StatusOr<Ids> EncodeInput(const v1::GenerateRequest& request, const Vocabulary& vocabulary,
                                absl::Span<const uint32_t> history) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      return EncodeText("prompt", request.prompt(), vocabulary);
    case v1::GenerateRequest::kPromptUtf8:
      return EncodeText("prompt_utf8", request.prompt_utf8(), vocabulary);
    case v1::GenerateRequest::kChat:
      if (request.chat().messages().empty()) return Ids();
      return EncodeChatInput(request.chat(), vocabulary, history);
    case v1::GenerateRequest::kTokens:
      return Ids(request.tokens().ids().begin(), request.tokens().ids().end());
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return Ids();
}

absl::string_view InputField(const v1::GenerateRequest& request) {
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      return "prompt";
    case v1::GenerateRequest::kPromptUtf8:
      return "prompt_utf8";
    case v1::GenerateRequest::kChat:
      return "chat.messages";
    default:
      return "tokens.ids";
  }
}

ReplyOptions MakeReplyOptions(const v1::GenerateRequest& request) {
  const v1::StoppingParameters& stopping = request.stopping();
  ReplyOptions options = {.stops = {stopping.stop_texts().begin(), stopping.stop_texts().end()},
                          .include_stop = stopping.include_stop_in_output(),
                          .min_tokens = stopping.min_tokens(),
                          .logprobs = request.output().has_top_logprobs()};
  if (!request.has_chat() || request.chat().messages().empty()) return options;
  options.think = ToThinkMode(request.chat().think());
  if (!request.chat().has_default_stops() || request.chat().default_stops()) {
    const std::vector<std::string> stops = DefaultChatStops();
    options.stops.insert(options.stops.end(), stops.begin(), stops.end());
  }
  return options;
}

void FillBase(const v1::GenerateRequest& request, const RequestMetadata& metadata, Plan& plan) {
  plan.base.set_model(plan.model->model.name());
  *plan.base.mutable_sampling() = request.sampling();
  plan.base.mutable_sampling()->set_seed(plan.seed);
  *plan.base.mutable_stopping() = request.stopping();
  plan.base.mutable_stopping()->clear_stop_texts();
  plan.base.mutable_stopping()->set_max_tokens(plan.max_tokens);
  if (request.has_output()) *plan.base.mutable_output() = request.output();
  if (request.has_speculation()) *plan.base.mutable_speculation() = request.speculation();
  plan.base.set_priority(metadata.priority);
}

}  // namespace

bool Plan::IsStopToken(uint32_t id) const {
  const v1::StoppingParameters& stopping = base.stopping();
  if (id == static_cast<uint32_t>(kEndOfText) && !stopping.ignore_eos()) return true;
  const auto& ids = stopping.stop_token_ids();
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

absl::StatusOr<Plan> MakePlan(const v1::GenerateRequest& request, const RequestMetadata& metadata,
                              std::shared_ptr<const ServedModel> model,
                              absl::Span<const uint32_t> history) {
  const RequestLimits limits = model->Limits();
  Plan plan = {.request_id = request.has_request_id() ? request.request_id() : RandomId(),
               .seed = request.sampling().has_seed() ? request.sampling().seed() : RandomBits(),
               .max_tokens = EffectiveMaxTokens(request, limits),
               .reply = MakeReplyOptions(request)};
  ASSIGN_OR_RETURN(plan.input_ids, EncodeInput(request, *model->vocabulary, history));
  RETURN_IF_ERROR(CheckPromptTokens(InputField(request), plan.input_ids.size(), limits));
  if (plan.input_ids.empty() && history.empty()) {
    return ReasonError(absl::StatusCode::kFailedPrecondition, "SESSION_EMPTY",
                       "the session holds no token yet; give it an input to continue");
  }
  const auto& emitted = request.resume().emitted_ids();
  plan.emitted_ids.assign(emitted.begin(), emitted.end());
  plan.model = std::move(model);
  FillBase(request, metadata, plan);
  return plan;
}

absl::StatusOr<std::vector<uint32_t>> EncodeInput(const v1::TokenizeRequest& request,
                                                  const Vocabulary& vocabulary) {
  if (request.has_chat()) return EncodeChatInput(request.chat(), vocabulary, {});
  return request.has_text() ? EncodeText("text", request.text(), vocabulary)
                            : EncodeText("text_utf8", request.text_utf8(), vocabulary);
}

}  // namespace tandem
