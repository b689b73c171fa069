#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tandem/v1/generation.pb.h"
#include "tandem/v1/session.pb.h"
#include "tandem/v1/worker.pb.h"

namespace tandem {

// What a server allows beyond the fixed ranges of the protos.
struct RequestLimits {
  std::string model = {};             // the served name; empty: any name is accepted
  uint32_t vocabulary_size = 0;       // V: ids are below it
  uint32_t max_prompt_tokens = 0;     // of the input of one request
  uint32_t max_tokens = 0;            // of the reply
  size_t max_prompt_bytes = 8 << 20;  // of text input
  bool token_ids_only = false;        // a verifier: no text, chat or stop texts
};

inline constexpr uint32_t kDefaultMaxTokens = 256;
inline constexpr uint32_t kMaxDraftsLimit = 8;
inline constexpr int32_t kPriorityLimit = 100;
inline constexpr uint32_t kDefaultIdleTimeoutSeconds = 600;
inline constexpr size_t kMaxVocabularyBytes = 64 << 20;  // of a vocabulary file

// The request's max_tokens, or its default: 256, or the server's limit where that is lower.
uint32_t EffectiveMaxTokens(const v1::GenerateRequest& request, const RequestLimits& limits);

// Every range that the protos state. The first violation comes back as INVALID_ARGUMENT naming the
// field by its path (`sampling.top_p`, `sampling.logit_bias[3].bias`); a prompt beyond the limit as
// OUT_OF_RANGE, another model as NOT_FOUND. The sizes of lists and texts are checked before their
// contents. Text is not checked to be UTF-8 here.
absl::Status ValidateGenerate(const v1::GenerateRequest& request, const RequestLimits& limits);
absl::Status ValidateTokenize(const v1::TokenizeRequest& request, const RequestLimits& limits);
absl::Status ValidateDetokenize(const v1::DetokenizeRequest& request, const RequestLimits& limits);
// Without the check of retain_tokens against the reply, which only the server of the request knows.
absl::Status ValidateCancel(const v1::CancelRequest& request);
absl::Status ValidateOpenSession(const v1::OpenSessionRequest& request);
absl::Status ValidateDescribeSession(const v1::DescribeSessionRequest& request);
absl::Status ValidateListSessions(const v1::ListSessionsRequest& request);
absl::Status ValidateCloseSession(const v1::CloseSessionRequest& request);
absl::Status ValidateWatchLoad(const v1::WatchLoadRequest& request);
absl::Status ValidateDrain(const v1::DrainRequest& request);

// OUT_OF_RANGE for a prompt, given as `field`, of more tokens than the limit.
absl::Status CheckPromptTokens(absl::string_view field, size_t count, const RequestLimits& limits);

// 1 to 128 of [A-Za-z0-9_.:-].
absl::Status ValidateName(absl::string_view field, absl::string_view name);

}  // namespace tandem
