#include "services/cli/reply.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "common/rpc/outcome.h"

namespace tandem::cli {
namespace {

template <typename Repeated>
std::vector<uint32_t> ToVector(const Repeated& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Reply::Reply() : begin_(absl::Now()) {}

void Reply::Add(const v1::GenerateResponse& event) {
  const double now = absl::ToDoubleSeconds(absl::Now() - begin_);
  switch (event.event_case()) {
    case v1::GenerateResponse::kStarted:
      started_ = event.started();
      break;
    case v1::GenerateResponse::kDelta:
      AddDelta(event.delta(), now);
      break;
    case v1::GenerateResponse::kFinished:
      finished_ = event.finished();
      usage_ = finished_->usage();
      total_seconds_ = now;
      break;
    case v1::GenerateResponse::kFailed:
      usage_ = event.failed().usage();
      total_seconds_ = now;
      break;
    case v1::GenerateResponse::EVENT_NOT_SET:
      break;
  }
}

void Reply::AddDelta(const v1::Delta& delta, double now) {
  text_ += delta.text();
  reasoning_text_ += delta.reasoning_text();
  logprobs_.insert(logprobs_.end(), delta.logprobs().begin(), delta.logprobs().end());
  rounds_.insert(rounds_.end(), delta.rounds().begin(), delta.rounds().end());
  if (delta.token_ids().empty()) return;
  if (token_ids_.empty()) {
    first_token_seconds_ = now;
    first_message_tokens_ = static_cast<size_t>(delta.token_ids_size());
  } else {
    message_intervals_.push_back(now - last_token_seconds_);
  }
  last_token_seconds_ = now;
  token_ids_.insert(token_ids_.end(), delta.token_ids().begin(), delta.token_ids().end());
}

double Reply::DecodeTokensPerSecond() const {
  if (message_intervals_.empty()) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(token_ids_.size() - first_message_tokens_) /
         (last_token_seconds_ - first_token_seconds_);
}

nlohmann::json Reply::TimingsJson() const {
  nlohmann::json json = {{"client_first_token_seconds", first_token_seconds_},
                         {"client_total_seconds", total_seconds_}};
  if (!message_intervals_.empty()) {
    json["longest_message_interval_seconds"] =
        *std::max_element(message_intervals_.begin(), message_intervals_.end());
  }
  if (finished_) {
    const v1::Timings& timings = finished_->timings();
    json["queue_seconds"] = timings.queue_seconds();
    json["prefill_seconds"] = timings.prefill_seconds();
    json["decode_seconds"] = timings.decode_seconds();
    json["time_to_first_token_seconds"] = timings.time_to_first_token_seconds();
  }
  return json;
}

nlohmann::json Reply::LogprobsJson() const {
  nlohmann::json list = nlohmann::json::array();
  for (const v1::TokenLogprob& entry : logprobs_) {
    nlohmann::json top = nlohmann::json::array();
    for (const v1::TopLogprob& other : entry.top()) {
      top.push_back({{"token_id", other.token_id()}, {"logprob", other.logprob()}});
    }
    list.push_back({{"token_id", entry.token_id()}, {"logprob", entry.logprob()}, {"top", top}});
  }
  return list;
}

nlohmann::json Reply::ToJson() const {
  nlohmann::json json = {{"request_id", started_.request_id()},
                         {"model", started_.model()},
                         {"seed", started_.seed()},
                         {"text", text_},
                         {"token_ids", token_ids_},
                         {"usage", UsageJson(usage_)},
                         {"timings", TimingsJson()}};
  if (!reasoning_text_.empty()) json["reasoning_text"] = reasoning_text_;
  if (!logprobs_.empty()) json["logprobs"] = LogprobsJson();
  json["rounds"] = nlohmann::json::array();
  for (const v1::Round& round : rounds_) {
    json["rounds"].push_back(
        {{"tokens", round.tokens()}, {"drafted", round.drafted()}, {"accepted", round.accepted()}});
  }
  if (!finished_) return json;
  json["finish_reason"] = FinishReasonName(finished_->reason());
  json["position"] = finished_->position();
  if (finished_->has_stop_text()) json["stop"] = finished_->stop_text();
  if (finished_->has_stop_token_id()) json["stop"] = finished_->stop_token_id();
  return json;
}

nlohmann::json UsageJson(const v1::Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens()},
          {"cached_prompt_tokens", usage.cached_prompt_tokens()},
          {"generated_tokens", usage.generated_tokens()},
          {"drafted_tokens", usage.drafted_tokens()},
          {"accepted_tokens", usage.accepted_tokens()},
          {"retained_tokens", usage.retained_tokens()},
          {"rounds", usage.rounds()},
          {"draft_rounds", usage.draft_rounds()},
          {"drafted_by_depth", ToVector(usage.drafted_by_depth())},
          {"accepted_by_depth", ToVector(usage.accepted_by_depth())}};
}

}  // namespace tandem::cli
