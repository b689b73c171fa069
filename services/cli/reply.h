#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::cli {

// Everything that one stream has delivered so far, and when. The clock starts at construction.
class Reply final {
 public:
  Reply();

  void Add(const v1::GenerateResponse& event);

  const v1::Started& started() const { return started_; }
  const std::string& text() const { return text_; }
  const std::string& reasoning_text() const { return reasoning_text_; }
  const std::vector<uint32_t>& token_ids() const { return token_ids_; }
  const std::optional<v1::Finished>& finished() const { return finished_; }
  // Of the terminal event; empty before it.
  const v1::Usage& usage() const { return usage_; }

  // On the client's clock, in seconds from the start; 0 before the first token.
  double first_token_seconds() const { return first_token_seconds_; }
  // Seconds between successive messages with tokens.
  const std::vector<double>& message_intervals() const { return message_intervals_; }
  // Tokens after the first message per second from then on; NaN with fewer than two messages.
  double DecodeTokensPerSecond() const;

  // One object: text, reasoning_text (if any), token_ids, finish_reason, stop (if any), usage,
  // timings, logprobs (if any), rounds, request_id, model, seed. Needs the terminal event.
  nlohmann::json ToJson() const;

 private:
  void AddDelta(const v1::Delta& delta, double now);
  nlohmann::json TimingsJson() const;
  nlohmann::json LogprobsJson() const;

  absl::Time begin_;
  v1::Started started_;
  std::string text_;
  std::string reasoning_text_;
  std::vector<uint32_t> token_ids_;
  std::vector<v1::TokenLogprob> logprobs_;
  std::vector<v1::Round> rounds_;
  std::optional<v1::Finished> finished_;
  v1::Usage usage_;
  size_t first_message_tokens_ = 0;
  double first_token_seconds_ = 0;
  double last_token_seconds_ = 0;
  double total_seconds_ = 0;
  std::vector<double> message_intervals_;
};

nlohmann::json UsageJson(const v1::Usage& usage);

}  // namespace tandem::cli
