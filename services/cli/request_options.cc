#include "services/cli/request_options.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"

namespace tandem::cli {
namespace {

absl::StatusOr<v1::LogitBias> ParseBias(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  uint32_t id = 0;
  float bias = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &id) || !absl::SimpleAtof(parts[1], &bias)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--logit-bias '", text, "' is not ID=BIAS, as 261=-2.5 or 0=-inf"));
  }
  v1::LogitBias result;
  result.set_token_id(id);
  result.set_bias(bias);
  return result;
}

absl::StatusOr<v1::SamplingParameters> MakeSampling(const RequestOptions& options) {
  v1::SamplingParameters sampling;
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.presence_penalty) sampling.set_presence_penalty(*options.presence_penalty);
  if (options.frequency_penalty) sampling.set_frequency_penalty(*options.frequency_penalty);
  if (options.repetition_penalty) sampling.set_repetition_penalty(*options.repetition_penalty);
  if (options.penalty_decay) sampling.set_penalty_decay(*options.penalty_decay);
  if (options.seed) sampling.set_seed(*options.seed);
  for (const std::string& text : options.logit_bias) {
    ASSIGN_OR_RETURN(*sampling.add_logit_bias(), ParseBias(text));
  }
  if (options.order == "temperature-first") {
    sampling.set_order(v1::SAMPLING_ORDER_TEMPERATURE_FIRST);
  } else if (options.order == "nucleus-first") {
    sampling.set_order(v1::SAMPLING_ORDER_NUCLEUS_FIRST);
  }
  return sampling;
}

v1::StoppingParameters MakeStopping(const RequestOptions& options) {
  v1::StoppingParameters stopping;
  if (options.max_tokens) stopping.set_max_tokens(*options.max_tokens);
  if (options.min_tokens) stopping.set_min_tokens(*options.min_tokens);
  for (const std::string& text : options.stop_texts) stopping.add_stop_texts(text);
  for (const uint32_t id : options.stop_token_ids) stopping.add_stop_token_ids(id);
  if (options.ignore_eos) stopping.set_ignore_eos(true);
  if (options.include_stop) stopping.set_include_stop_in_output(true);
  return stopping;
}

}  // namespace

void AddSamplingOptions(CLI::App& app, RequestOptions& options) {
  const std::string group = "Sampling";
  app.add_option("--temperature", options.temperature, "0 to 100; 0 is greedy")->group(group);
  app.add_option("--top-k", options.top_k, "Keep the n most likely tokens; 0 = all")->group(group);
  app.add_option("--top-p", options.top_p, "Keep the most likely tokens up to this mass")
      ->group(group);
  app.add_option("--min-p", options.min_p, "Drop tokens below this share of the most likely one")
      ->group(group);
  app.add_option("--presence-penalty", options.presence_penalty,
                 "Subtracted from tokens that occur in the reply")
      ->group(group);
  app.add_option("--frequency-penalty", options.frequency_penalty,
                 "Times the decayed count of a token in the reply")
      ->group(group);
  app.add_option("--repetition-penalty", options.repetition_penalty, "Over prompt and reply")
      ->group(group);
  app.add_option("--penalty-decay", options.penalty_decay, "Factor on counts per generated token")
      ->group(group);
  app.add_option("--seed", options.seed, "The same seed gives the same reply")->group(group);
  app.add_option("--logit-bias", options.logit_bias, "ID=BIAS, -inf bans; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--sampling-order", options.order, "temperature-first or nucleus-first")
      ->check(CLI::IsMember({"temperature-first", "nucleus-first"}))
      ->group(group);
}

void AddStoppingOptions(CLI::App& app, RequestOptions& options) {
  const std::string group = "Stopping";
  app.add_option("-n,--max-tokens", options.max_tokens, "Longest reply")->group(group);
  app.add_option("--min-tokens", options.min_tokens, "Shortest reply")->group(group);
  app.add_option("--stop", options.stop_texts, "Text that ends the reply; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--stop-token", options.stop_token_ids,
                 "Token id that ends the reply; may be repeated")
      ->allow_extra_args(false)
      ->group(group);
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after the end-of-text token")
      ->group(group);
  app.add_flag("--include-stop", options.include_stop, "Keep the stop text or token in the reply")
      ->group(group);
}

void AddRequestOptions(CLI::App& app, RequestOptions& options) {
  app.add_option("--max-drafts", options.max_drafts,
                 "Most drafts per step, 0 to 8; 0 turns drafting off");
  app.add_option("--logprobs", options.top_logprobs,
                 "Report log-probabilities and so many alternatives, 0 to 20");
  app.add_option("--model", options.model, "Refuse another model than this");
  app.add_option("--request-id", options.request_id, "Name of the request in logs and for Cancel");
  app.add_option("--priority", options.priority, "Higher is admitted earlier, -100 to 100");
  app.add_option("--timeout", options.timeout_seconds, "Seconds until the request is given up")
      ->check(CLI::PositiveNumber);
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const RequestOptions& options) {
  v1::GenerateRequest request;
  if (options.model) request.set_model(*options.model);
  if (options.request_id) request.set_request_id(*options.request_id);
  if (options.priority) request.set_priority(*options.priority);
  ASSIGN_OR_RETURN(*request.mutable_sampling(), MakeSampling(options));
  *request.mutable_stopping() = MakeStopping(options);
  if (options.top_logprobs) request.mutable_output()->set_top_logprobs(*options.top_logprobs);
  if (options.max_drafts) request.mutable_speculation()->set_max_drafts(*options.max_drafts);
  return request;
}

absl::StatusOr<v1::ThinkMode> ParseThinkMode(const std::string& text) {
  if (text == "off") return v1::THINK_MODE_OFF;
  if (text == "on") return v1::THINK_MODE_ON;
  if (text == "skip") return v1::THINK_MODE_SKIP;
  return absl::InvalidArgumentError(
      absl::StrCat("think mode '", text, "' is none of off, on, skip"));
}

absl::StatusOr<v1::ChatInput> MakeChat(const std::string& system, const std::string& user,
                                       const std::string& think) {
  v1::ChatInput chat;
  const auto add = [&chat](v1::Role role, const std::string& content) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(content);
  };
  if (!system.empty()) add(v1::ROLE_SYSTEM, system);
  add(v1::ROLE_USER, user);
  ASSIGN_OR_RETURN(const v1::ThinkMode mode, ParseThinkMode(think));
  chat.set_think(mode);
  return chat;
}

}  // namespace tandem::cli
