#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/field_checks.h"
#include "common/rpc/validate.h"
#include "common/rpc/validate_input.h"

namespace tandem {
namespace {

constexpr int kMaxLogitBiases = 1024;
constexpr int kMaxStopTexts = 16;
constexpr size_t kMaxStopTextBytes = 256;
constexpr int kMaxStopTokens = 64;
constexpr uint32_t kMaxTopLogprobs = 20;
constexpr double kMost = 100;  // of temperature, penalties and biases

absl::Status CheckText(absl::string_view field, size_t size, bool may_be_empty,
                       const RequestLimits& limits) {
  if (size == 0 && !may_be_empty) return FieldError(field, "is empty");
  return CheckTextSize(field, size, limits);
}

absl::Status CheckTokens(const v1::TokenInput& tokens, bool may_be_empty,
                         const RequestLimits& limits) {
  if (tokens.ids().empty() && !may_be_empty) return FieldError("tokens.ids", "is empty");
  RETURN_IF_ERROR(CheckPromptTokens("tokens.ids", tokens.ids_size(), limits));
  return CheckTokenIds("tokens.ids", tokens.ids(), limits.vocabulary_size);
}

absl::Status CheckInput(const v1::GenerateRequest& request, const RequestLimits& limits) {
  const bool on_session = request.has_session();
  if (limits.token_ids_only && request.input_case() != v1::GenerateRequest::kTokens &&
      request.input_case() != v1::GenerateRequest::INPUT_NOT_SET) {
    return FieldError("input", "a verifier takes `tokens` only; text goes to the router");
  }
  switch (request.input_case()) {
    case v1::GenerateRequest::kPrompt:
      return CheckText("prompt", request.prompt().size(), on_session, limits);
    case v1::GenerateRequest::kPromptUtf8:
      return CheckText("prompt_utf8", request.prompt_utf8().size(), on_session, limits);
    case v1::GenerateRequest::kChat:
      if (request.chat().messages().empty() && !on_session) {
        return FieldError("chat.messages", "is empty");
      }
      return CheckChat(request.chat(), limits);
    case v1::GenerateRequest::kTokens:
      return CheckTokens(request.tokens(), on_session, limits);
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  if (on_session) return absl::OkStatus();
  return FieldError("input", "is missing: give prompt, prompt_utf8, chat or tokens");
}

absl::Status CheckLogitBias(const v1::SamplingParameters& sampling, const RequestLimits& limits) {
  RETURN_IF_ERROR(CheckCount("sampling.logit_bias", sampling.logit_bias_size(), kMaxLogitBiases));
  absl::flat_hash_set<uint32_t> seen;
  for (int i = 0; i < sampling.logit_bias_size(); ++i) {
    const v1::LogitBias& bias = sampling.logit_bias(i);
    const std::string path = absl::StrCat("sampling.logit_bias[", i, "]");
    if (bias.token_id() >= limits.vocabulary_size) {
      return FieldError(
          absl::StrCat(path, ".token_id"),
          absl::StrCat("is ", bias.token_id(), ", must be below ", limits.vocabulary_size));
    }
    if (!seen.insert(bias.token_id()).second) {
      return FieldError(absl::StrCat(path, ".token_id"),
                        absl::StrCat(bias.token_id(), " occurs twice"));
    }
    const bool bans = std::isinf(bias.bias()) && bias.bias() < 0;
    if (!bans) RETURN_IF_ERROR(CheckRange(absl::StrCat(path, ".bias"), bias.bias(), -kMost, kMost));
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const v1::SamplingParameters& s, const RequestLimits& limits) {
  if (s.has_temperature()) {
    RETURN_IF_ERROR(CheckRange("sampling.temperature", s.temperature(), 0, kMost));
  }
  if (s.has_top_p()) RETURN_IF_ERROR(CheckAbove("sampling.top_p", s.top_p(), 0, 1));
  if (s.has_min_p()) RETURN_IF_ERROR(CheckBelow("sampling.min_p", s.min_p(), 0, 1));
  if (s.has_presence_penalty()) {
    RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", s.presence_penalty(), -kMost, kMost));
  }
  if (s.has_frequency_penalty()) {
    RETURN_IF_ERROR(CheckRange("sampling.frequency_penalty", s.frequency_penalty(), -kMost, kMost));
  }
  if (s.has_repetition_penalty()) {
    RETURN_IF_ERROR(CheckAbove("sampling.repetition_penalty", s.repetition_penalty(), 0, kMost));
  }
  if (s.has_penalty_decay()) {
    RETURN_IF_ERROR(CheckAbove("sampling.penalty_decay", s.penalty_decay(), 0, 1));
  }
  if (!v1::SamplingOrder_IsValid(s.order())) {
    return FieldError("sampling.order", absl::StrCat("has no value ", s.order()));
  }
  return CheckLogitBias(s, limits);
}

absl::Status CheckStopTexts(const v1::StoppingParameters& stopping) {
  RETURN_IF_ERROR(CheckCount("stopping.stop_texts", stopping.stop_texts_size(), kMaxStopTexts));
  for (int i = 0; i < stopping.stop_texts_size(); ++i) {
    const size_t size = stopping.stop_texts(i).size();
    if (size >= 1 && size <= kMaxStopTextBytes) continue;
    return FieldError(absl::StrCat("stopping.stop_texts[", i, "]"),
                      absl::StrCat("has ", size, " bytes, must have 1 to ", kMaxStopTextBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckStopping(const v1::GenerateRequest& request, const RequestLimits& limits) {
  const v1::StoppingParameters& stopping = request.stopping();
  if (stopping.has_max_tokens()) {
    RETURN_IF_ERROR(CheckRange("stopping.max_tokens", stopping.max_tokens(), 1, limits.max_tokens));
  }
  const uint32_t max_tokens = EffectiveMaxTokens(request, limits);
  RETURN_IF_ERROR(CheckRange("stopping.min_tokens", stopping.min_tokens(), 0, max_tokens));
  if (limits.token_ids_only && !stopping.stop_texts().empty()) {
    return FieldError("stopping.stop_texts", "a verifier matches no text; ask the router");
  }
  RETURN_IF_ERROR(CheckStopTexts(stopping));
  RETURN_IF_ERROR(
      CheckCount("stopping.stop_token_ids", stopping.stop_token_ids_size(), kMaxStopTokens));
  return CheckTokenIds("stopping.stop_token_ids", stopping.stop_token_ids(),
                       limits.vocabulary_size);
}

absl::Status CheckResume(const v1::GenerateRequest& request, const RequestLimits& limits) {
  if (!request.has_resume()) return absl::OkStatus();
  if (!request.sampling().has_seed()) {
    return FieldError("sampling.seed", "is required with resume: it is the one in `started`");
  }
  const auto& ids = request.resume().emitted_ids();
  const uint32_t max_tokens = EffectiveMaxTokens(request, limits);
  if (static_cast<uint32_t>(ids.size()) >= max_tokens) {
    return FieldError(
        "resume.emitted_ids",
        absl::StrCat("has ", ids.size(), " tokens, must be fewer than max_tokens ", max_tokens));
  }
  return CheckTokenIds("resume.emitted_ids", ids, limits.vocabulary_size);
}

absl::Status CheckOptions(const v1::GenerateRequest& request) {
  if (request.output().has_top_logprobs()) {
    RETURN_IF_ERROR(
        CheckRange("output.top_logprobs", request.output().top_logprobs(), 0, kMaxTopLogprobs));
  }
  if (request.speculation().has_max_drafts()) {
    RETURN_IF_ERROR(CheckRange("speculation.max_drafts", request.speculation().max_drafts(), 0,
                               kMaxDraftsLimit));
  }
  if (!request.has_priority()) return absl::OkStatus();
  return CheckRange("priority", request.priority(), -kPriorityLimit, kPriorityLimit);
}

}  // namespace

absl::Status CheckPromptTokens(absl::string_view field, size_t count, const RequestLimits& limits) {
  if (count <= limits.max_prompt_tokens) return absl::OkStatus();
  return FieldError(absl::StatusCode::kOutOfRange, field,
                    absl::StrCat("the prompt has ", count, " tokens, this server takes at most ",
                                 limits.max_prompt_tokens));
}

absl::Status CheckTextSize(absl::string_view field, size_t size, const RequestLimits& limits) {
  if (size <= limits.max_prompt_bytes) return absl::OkStatus();
  return FieldError(
      absl::StatusCode::kOutOfRange, field,
      absl::StrCat("has ", size, " bytes, this server takes at most ", limits.max_prompt_bytes));
}

absl::Status CheckChat(const v1::ChatInput& chat, const RequestLimits& limits) {
  size_t size = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    size += message.content().size();
    if (message.role() == v1::ROLE_UNSPECIFIED || !v1::Role_IsValid(message.role())) {
      return FieldError(absl::StrCat("chat.messages[", i, "].role"),
                        "must be ROLE_SYSTEM, ROLE_USER or ROLE_ASSISTANT");
    }
  }
  if (!v1::ThinkMode_IsValid(chat.think())) {
    return FieldError("chat.think", absl::StrCat("has no value ", chat.think()));
  }
  return CheckTextSize("chat.messages", size, limits);
}

absl::Status ValidateGenerate(const v1::GenerateRequest& request, const RequestLimits& limits) {
  if (request.has_request_id()) RETURN_IF_ERROR(ValidateName("request_id", request.request_id()));
  if (request.has_model() && !limits.model.empty() && request.model() != limits.model) {
    return FieldError(absl::StatusCode::kNotFound, "model",
                      absl::StrCat("'", request.model(), "' is not served here; the model is '",
                                   limits.model, "'"));
  }
  if (request.has_session()) {
    RETURN_IF_ERROR(ValidateName("session.session_id", request.session().session_id()));
  }
  RETURN_IF_ERROR(CheckInput(request, limits));
  RETURN_IF_ERROR(CheckSampling(request.sampling(), limits));
  RETURN_IF_ERROR(CheckStopping(request, limits));
  RETURN_IF_ERROR(CheckResume(request, limits));
  return CheckOptions(request);
}

}  // namespace tandem
