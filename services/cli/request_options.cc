#include "services/cli/request_options.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/utf8_decoder.h"
#include "services/cli/option_values.h"

namespace tandem::cli {
namespace {

constexpr char kSampling[] = "Sampling";
constexpr char kStopping[] = "Stopping";
constexpr float kMaxBias = 100;
constexpr uint32_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

absl::StatusOr<v1::LogitBias> ParseBias(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
  uint32_t id = 0;
  float bias = 0;
  const bool numbers =
      parts.size() == 2 && absl::SimpleAtoi(parts[0], &id) && absl::SimpleAtof(parts[1], &bias);
  const bool bans = std::isinf(bias) && bias < 0;
  // Written so that a NaN is outside.
  if (!numbers || !(bans || (bias >= -kMaxBias && bias <= kMaxBias))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--logit-bias: '", ReplaceInvalidUtf8(text),
        "' is not ID=BIAS with a bias from -100 to 100 or -inf, as 261=-2.5 or 0=-inf"));
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
  const auto real = [&app](const char* name, std::optional<float>& value, const RealRange& range,
                           const char* help) {
    app.add_option(name, value, help)->transform(RealNumber(range))->group(kSampling);
  };
  real("--temperature", options.temperature, {.high = 100}, "0 to 100, default 1; 0 is greedy");
  app.add_option("--top-k", options.top_k, "Keep the n most likely tokens; 0 = all")
      ->transform(WholeNumber(0, kMaxUint32))
      ->group(kSampling);
  real("--top-p", options.top_p, {.high = 1, .above_low = true},
       "Keep the most likely tokens up to this mass, above 0 to 1");
  real("--min-p", options.min_p, {.high = 1, .below_high = true},
       "Drop tokens below this share of the most likely one, 0 to below 1");
  real("--presence-penalty", options.presence_penalty, {.low = -100, .high = 100},
       "Subtracted from tokens that occur in the reply, -100 to 100");
  real("--frequency-penalty", options.frequency_penalty, {.low = -100, .high = 100},
       "Times the decayed count of a token in the reply, -100 to 100");
  real("--repetition-penalty", options.repetition_penalty, {.high = 100, .above_low = true},
       "Over prompt and reply, above 0 to 100; 1 is none");
  real("--penalty-decay", options.penalty_decay, {.high = 1, .above_low = true},
       "Factor on counts per generated token, above 0 to 1");
  app.add_option("--seed", options.seed, "The same seed gives the same reply")
      ->transform(WholeNumber(0, kMaxUint64))
      ->group(kSampling);
  app.add_option("--logit-bias", options.logit_bias, "ID=BIAS, -inf bans; may be repeated")
      ->allow_extra_args(false)
      ->group(kSampling);
  app.add_option("--sampling-order", options.order, "temperature-first or nucleus-first")
      ->check(CLI::IsMember({"temperature-first", "nucleus-first"}))
      ->group(kSampling);
}

void AddStoppingOptions(CLI::App& app, RequestOptions& options) {
  app.add_option("-n,--max-tokens", options.max_tokens, "Longest reply; default 256")
      ->transform(WholeNumber(1, kMaxUint32))
      ->group(kStopping);
  app.add_option("--min-tokens", options.min_tokens, "Shortest reply, 0 to --max-tokens")
      ->transform(WholeNumber(0, kMaxUint32))
      ->group(kStopping);
  app.add_option("--stop", options.stop_texts,
                 "Text of 1 to 256 bytes that ends the reply; may be repeated")
      ->transform(Utf8Text(1, 256))
      ->allow_extra_args(false)
      ->group(kStopping);
  app.add_option("--stop-token", options.stop_token_ids,
                 "Token id that ends the reply; may be repeated")
      ->transform(WholeNumber(0, kMaxUint32))
      ->allow_extra_args(false)
      ->group(kStopping);
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on after the end-of-text token")
      ->group(kStopping);
  app.add_flag("--include-stop", options.include_stop, "Keep the stop text or token in the reply")
      ->group(kStopping);
}

void AddMaxDraftsOption(CLI::App& app, std::optional<uint32_t>& max_drafts) {
  app.add_option("--max-drafts", max_drafts,
                 "Most drafts per step, 0 to 8; 0 turns drafting off; default: the server's "
                 "schedule")
      ->transform(WholeNumber(0, 8));
}

void AddRequestOptions(CLI::App& app, RequestOptions& options) {
  AddMaxDraftsOption(app, options.max_drafts);
  app.add_option("--logprobs", options.top_logprobs,
                 "Report log-probabilities and so many alternatives, 0 to 20")
      ->transform(WholeNumber(0, 20));
  app.add_option("--model", options.model, "Refuse another model than this")->transform(Utf8Text());
  app.add_option("--request-id", options.request_id,
                 "Name of the request in logs and for Cancel, 1 to 128 of A-Z a-z 0-9 _ . : -")
      ->transform(Utf8Text(1, 128));
  app.add_option("--priority", options.priority, "Higher is admitted earlier, -100 to 100")
      ->transform(WholeNumber(-100, 100));
  AddDurationOption(app, "--timeout", options.timeout, absl::Milliseconds(1), absl::Hours(24),
                    "Until the request is given up, as 30s or 1m30s; default: the server's");
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
