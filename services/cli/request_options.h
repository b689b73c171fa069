#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::cli {

inline constexpr char kDefaultAddress[] = "127.0.0.1:50051";

// What a request says beside its input. What is absent is left to the server's defaults.
struct RequestOptions {
  std::optional<std::string> model, request_id;
  std::optional<int32_t> priority;
  absl::Duration timeout = absl::InfiniteDuration();  // infinite: left to the server

  std::optional<float> temperature, top_p, min_p;
  std::optional<float> presence_penalty, frequency_penalty, repetition_penalty, penalty_decay;
  std::optional<uint32_t> top_k;
  std::optional<uint64_t> seed;
  std::vector<std::string> logit_bias;  // ID=BIAS
  std::string order;                    // "", temperature-first, nucleus-first

  std::optional<uint32_t> max_tokens, min_tokens;
  std::vector<std::string> stop_texts;
  std::vector<uint32_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;

  std::optional<uint32_t> top_logprobs;
  std::optional<uint32_t> max_drafts;
};

void AddSamplingOptions(CLI::App& app, RequestOptions& options);
void AddStoppingOptions(CLI::App& app, RequestOptions& options);
void AddMaxDraftsOption(CLI::App& app, std::optional<uint32_t>& max_drafts);
// --max-drafts, --logprobs, --model, --request-id, --priority, --timeout.
void AddRequestOptions(CLI::App& app, RequestOptions& options);

// A request without input. INVALID_ARGUMENT for a logit bias that is not ID=BIAS.
absl::StatusOr<v1::GenerateRequest> MakeRequest(const RequestOptions& options);

// "off", "on", "skip".
absl::StatusOr<v1::ThinkMode> ParseThinkMode(const std::string& text);

// The user's next message, behind one of the system unless that is empty. Errors as ParseThinkMode.
absl::StatusOr<v1::ChatInput> MakeChat(const std::string& system, const std::string& user,
                                       const std::string& think);

}  // namespace tandem::cli
