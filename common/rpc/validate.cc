#include "common/rpc/validate.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/field_checks.h"
#include "common/rpc/page_token.h"
#include "common/rpc/validate_input.h"

namespace tandem {
namespace {

constexpr size_t kMaxNameSize = 128;
constexpr uint32_t kMaxIdleTimeoutSeconds = 86'400;
constexpr uint32_t kMaxPageSize = 1000;
constexpr uint32_t kMaxDrainSeconds = 3600;
constexpr uint64_t kMaxDetokenizeIds = 1 << 20;

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == ':' || c == '-';
}

}  // namespace

uint32_t EffectiveMaxTokens(const v1::GenerateRequest& request, const RequestLimits& limits) {
  if (request.stopping().has_max_tokens()) return request.stopping().max_tokens();
  return std::min(kDefaultMaxTokens, limits.max_tokens);
}

absl::Status ValidateName(absl::string_view field, absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameSize) {
    return FieldError(
        field, absl::StrCat("has ", name.size(), " characters, must have 1 to ", kMaxNameSize));
  }
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return FieldError(field, "may hold only letters, digits and _ . : -");
  }
  return absl::OkStatus();
}

absl::Status ValidateTokenize(const v1::TokenizeRequest& request, const RequestLimits& limits) {
  switch (request.input_case()) {
    case v1::TokenizeRequest::kText:
      return CheckTextSize("text", request.text().size(), limits);
    case v1::TokenizeRequest::kTextUtf8:
      return CheckTextSize("text_utf8", request.text_utf8().size(), limits);
    case v1::TokenizeRequest::kChat:
      return CheckChat(request.chat(), limits);
    case v1::TokenizeRequest::INPUT_NOT_SET:
      break;
  }
  return FieldError("input", "is missing: give text, text_utf8 or chat");
}

absl::Status ValidateDetokenize(const v1::DetokenizeRequest& request, const RequestLimits& limits) {
  RETURN_IF_ERROR(CheckCount("ids", request.ids_size(), kMaxDetokenizeIds));
  return CheckTokenIds("ids", request.ids(), limits.vocabulary_size);
}

absl::Status ValidateCancel(const v1::CancelRequest& request) {
  return ValidateName("request_id", request.request_id());
}

absl::Status ValidateOpenSession(const v1::OpenSessionRequest& request) {
  if (request.has_session_id()) RETURN_IF_ERROR(ValidateName("session_id", request.session_id()));
  if (request.has_router_id()) RETURN_IF_ERROR(ValidateName("router_id", request.router_id()));
  if (!request.has_idle_timeout_seconds()) return absl::OkStatus();
  return CheckRange("idle_timeout_seconds", request.idle_timeout_seconds(), 1,
                    kMaxIdleTimeoutSeconds);
}

absl::Status ValidateDescribeSession(const v1::DescribeSessionRequest& request) {
  return ValidateName("session_id", request.session_id());
}

absl::Status ValidateListSessions(const v1::ListSessionsRequest& request) {
  if (request.has_page_size()) {
    RETURN_IF_ERROR(CheckRange("page_size", request.page_size(), 1, kMaxPageSize));
  }
  return PageStart(request).status();
}

absl::Status ValidateCloseSession(const v1::CloseSessionRequest& request) {
  return ValidateName("session_id", request.session_id());
}

absl::Status ValidateWatchLoad(const v1::WatchLoadRequest& request) {
  if (!request.has_router_id()) return absl::OkStatus();
  return ValidateName("router_id", request.router_id());
}

absl::Status ValidateDrain(const v1::DrainRequest& request) {
  if (!request.has_timeout_seconds()) return absl::OkStatus();
  return CheckRange("timeout_seconds", request.timeout_seconds(), 0, kMaxDrainSeconds);
}

}  // namespace tandem
