#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "kernels/accept/accept.h"
#include "kernels/lanes.h"

namespace tandem {

// One request as the engine takes it: already checked against every range of the API, token ids
// below V.
struct GenerationInput {
  std::string request_id = {};
  std::vector<int32_t> prompt = {};  // new input
  std::vector<int32_t>
      emitted;  // tokens of this reply that another server emitted, after the prompt
  std::string session_id = {};  // empty: no session
  std::optional<int64_t> expected_position = {};
  Sampling sampling = {};
  std::vector<int32_t> bias_ids = {};   // distinct
  std::vector<float> bias_values = {};  // one per bias id
  std::vector<int32_t> stop_ids = {};
  bool ignore_eos = false;
  bool include_stop = false;    // the stop token belongs to the reply
  int max_tokens = 256;         // of the reply, `emitted` included; >= 1
  int max_drafts = kMaxDrafts;  // 0: no drafts for this request
  int priority = 0;             // higher is admitted earlier
  absl::Time deadline = absl::InfiniteFuture();
};

// Counts of one request's own work: tokens of GenerationInput::emitted are not in them.
// retained <= accepted <= drafted.
struct ReplyUsage {
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;
  int64_t generated = 0;     // emitted, after stop trimming
  int64_t drafted = 0;       // drafts verified
  int64_t accepted = 0;      // of those, equal to the base model's choice
  int64_t retained = 0;      // of those, emitted
  int64_t rounds = 0;        // steps that chose tokens
  int64_t draft_rounds = 0;  // of those, with at least one draft
  int64_t drafted_by_depth[kMaxDrafts] = {};
  int64_t accepted_by_depth[kMaxDrafts] = {};
};

struct ReplyTimings {
  absl::Duration queue = {};
  absl::Duration prefill = {};              // admission to first token
  absl::Duration decode = {};               // first token to the end
  absl::Duration time_to_first_token = {};  // from arrival
};

struct ReplyStarted {
  int64_t prompt_tokens = 0;         // of the input
  int64_t cached_prompt_tokens = 0;  // session tokens that were not computed again
  int64_t position = 0;              // of the first token of the reply
  uint64_t seed = 0;
};

struct TopLogprobEntry {
  int32_t token = 0;
  float logprob = 0;
};

struct TokenLogprobEntry {
  float logprob = 0;                      // natural, of the raw logits
  std::vector<TopLogprobEntry> top = {};  // best first
};

// What one step emitted for one reply.
struct ReplyRound {
  std::vector<int32_t> tokens = {};              // at least one
  std::vector<TokenLogprobEntry> logprobs = {};  // empty, or one per token
  int drafted = 0;
  int accepted = 0;  // of `tokens`, the first so many were drafts
};

enum class FinishCause { kStopToken, kStopText, kMaxTokens };

struct ReplyFinished {
  FinishCause cause = FinishCause::kMaxTokens;
  int32_t stop_token = -1;  // the stop token, or -1
  int64_t position = 0;     // tokens of the sequence now
  ReplyUsage usage = {};
  ReplyTimings timings = {};
};

struct ReplyFailed {
  absl::Status status = {};  // never OK
  std::string reason = {};   // stable upper-case word
  bool retryable = false;
  absl::Duration retry_after = {};  // zero: no hint
  ReplyUsage usage = {};
};

}  // namespace tandem
