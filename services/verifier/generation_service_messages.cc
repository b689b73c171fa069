#include "services/verifier/generation_service_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/rpc/status.h"

namespace tandem {
namespace {

Sampling ToSampling(const v1::GenerateRequest& request) {
  const v1::SamplingParameters& from = request.sampling();
  Sampling to;
  if (from.has_temperature()) to.temperature = from.temperature();
  if (from.has_top_k())
    to.top_k = static_cast<int32_t>(std::min<uint32_t>(from.top_k(), INT32_MAX));
  if (from.has_top_p()) to.top_p = from.top_p();
  if (from.has_min_p()) to.min_p = from.min_p();
  if (from.has_presence_penalty()) to.presence_penalty = from.presence_penalty();
  if (from.has_frequency_penalty()) to.frequency_penalty = from.frequency_penalty();
  if (from.has_repetition_penalty()) to.repetition_penalty = from.repetition_penalty();
  if (from.has_penalty_decay()) to.penalty_decay = from.penalty_decay();
  to.seed = from.has_seed() ? from.seed() : RandomBits();
  if (from.order() == v1::SAMPLING_ORDER_NUCLEUS_FIRST) to.order = SamplingOrder::kNucleusFirst;
  to.min_tokens = static_cast<int32_t>(request.stopping().min_tokens());
  if (request.output().has_top_logprobs()) {
    to.top_logprobs = static_cast<int32_t>(request.output().top_logprobs());
  }
  return to;
}

void Fill(const ReplyUsage& usage, v1::Usage* out) {
  const auto count = [](int64_t value) { return static_cast<uint32_t>(value); };
  out->set_prompt_tokens(count(usage.prompt_tokens));
  out->set_cached_prompt_tokens(count(usage.cached_prompt_tokens));
  out->set_generated_tokens(count(usage.generated));
  out->set_drafted_tokens(count(usage.drafted));
  out->set_accepted_tokens(count(usage.accepted));
  out->set_retained_tokens(count(usage.retained));
  out->set_rounds(count(usage.rounds));
  out->set_draft_rounds(count(usage.draft_rounds));
  for (int d = 0; d < kMaxDrafts && usage.drafted_by_depth[d] > 0; ++d) {
    out->add_drafted_by_depth(count(usage.drafted_by_depth[d]));
    out->add_accepted_by_depth(count(usage.accepted_by_depth[d]));
  }
}

}  // namespace

GenerationInput ToInput(const v1::GenerateRequest& request, const RequestLimits& limits,
                        const RequestMetadata& metadata, absl::Time deadline) {
  GenerationInput input;
  input.request_id =
      request.has_request_id() ? request.request_id() : absl::StrCat("r-", RandomId());
  const auto& ids = request.tokens().ids();
  input.prompt.assign(ids.begin(), ids.end());
  const auto& emitted = request.resume().emitted_ids();
  input.emitted.assign(emitted.begin(), emitted.end());
  input.session_id = request.session().session_id();
  if (request.session().has_expected_position()) {
    input.expected_position = static_cast<int64_t>(request.session().expected_position());
  }
  input.sampling = ToSampling(request);
  for (const v1::LogitBias& bias : request.sampling().logit_bias()) {
    input.bias_ids.push_back(static_cast<int32_t>(bias.token_id()));
    input.bias_values.push_back(bias.bias());
  }
  const v1::StoppingParameters& stopping = request.stopping();
  input.stop_ids.assign(stopping.stop_token_ids().begin(), stopping.stop_token_ids().end());
  input.ignore_eos = stopping.ignore_eos();
  input.include_stop = stopping.include_stop_in_output();
  input.max_tokens = static_cast<int>(EffectiveMaxTokens(request, limits));
  if (request.speculation().has_max_drafts()) {
    input.max_drafts = static_cast<int>(request.speculation().max_drafts());
  }
  input.priority = metadata.priority;
  input.deadline = deadline;
  return input;
}

void Fill(const ReplyStarted& started, const std::string& request_id, const std::string& model,
          v1::Started* out) {
  out->set_request_id(request_id);
  out->set_model(model);
  out->set_seed(started.seed);
  out->set_prompt_tokens(static_cast<uint32_t>(started.prompt_tokens));
  out->set_cached_prompt_tokens(static_cast<uint32_t>(started.cached_prompt_tokens));
  out->set_position(static_cast<uint64_t>(started.position));
}

void Fill(const ReplyRound& round, v1::Delta* out) {
  for (const int32_t token : round.tokens) out->add_token_ids(static_cast<uint32_t>(token));
  for (size_t i = 0; i < round.logprobs.size(); ++i) {
    v1::TokenLogprob* const entry = out->add_logprobs();
    entry->set_token_id(static_cast<uint32_t>(round.tokens[i]));
    entry->set_logprob(round.logprobs[i].logprob);
    for (const TopLogprobEntry& top : round.logprobs[i].top) {
      v1::TopLogprob* const listed = entry->add_top();
      listed->set_token_id(static_cast<uint32_t>(top.token));
      listed->set_logprob(top.logprob);
    }
  }
  v1::Round* const counts = out->add_rounds();
  counts->set_tokens(static_cast<uint32_t>(round.tokens.size()));
  counts->set_drafted(static_cast<uint32_t>(round.drafted));
  counts->set_accepted(static_cast<uint32_t>(round.accepted));
}

v1::FinishReason ReasonOf(FinishCause cause) {
  switch (cause) {
    case FinishCause::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishCause::kStopText:
      return v1::FINISH_REASON_STOP_TEXT;
    case FinishCause::kMaxTokens:
      break;
  }
  return v1::FINISH_REASON_MAX_TOKENS;
}

void Fill(const ReplyFinished& finished, v1::Finished* out) {
  out->set_reason(ReasonOf(finished.cause));
  if (finished.cause == FinishCause::kStopToken) {
    out->set_stop_token_id(static_cast<uint32_t>(finished.stop_token));
  }
  out->set_position(static_cast<uint64_t>(finished.position));
  Fill(finished.usage, out->mutable_usage());
  v1::Timings* const timings = out->mutable_timings();
  timings->set_queue_seconds(absl::ToDoubleSeconds(finished.timings.queue));
  timings->set_prefill_seconds(absl::ToDoubleSeconds(finished.timings.prefill));
  timings->set_decode_seconds(absl::ToDoubleSeconds(finished.timings.decode));
  timings->set_time_to_first_token_seconds(
      absl::ToDoubleSeconds(finished.timings.time_to_first_token));
}

void Fill(const ReplyFailed& failed, v1::Failed* out) {
  out->set_code(static_cast<int32_t>(failed.status.code()));
  out->set_reason(failed.reason);
  out->set_message(std::string(failed.status.message()));
  out->set_retryable(failed.retryable);
  Fill(failed.usage, out->mutable_usage());
}

absl::Status ToStatus(const ReplyFailed& failed) {
  absl::Status status = failed.status;
  SetReason(status, failed.reason);
  if (failed.retry_after > absl::ZeroDuration()) SetRetryDelay(status, failed.retry_after);
  return status;
}

void Fill(const HandoffStatus& status, const std::string& schedule, v1::DrafterStatus* out) {
  out->set_attached(status.attached);
  out->set_mode(status.mode);
  out->set_reason(status.reason);
  out->set_sidecar(status.sidecar);
  out->set_depth(static_cast<uint32_t>(status.depth));
  out->set_max_drafts(static_cast<uint32_t>(status.max_drafts));
  out->set_round_trip_seconds(status.round_trip_seconds);
  out->set_schedule(schedule);
}

void Fill(const ServedModel& model, const HandoffStatus& status, v1::GetModelResponse* out) {
  out->set_name(model.name);
  out->set_hash(model.hash);
  out->set_layers(static_cast<uint32_t>(model.config.layers));
  out->set_width(static_cast<uint32_t>(model.config.width));
  out->set_heads(static_cast<uint32_t>(model.config.heads));
  out->set_vocabulary_size(static_cast<uint32_t>(model.config.vocab));
  out->set_parameters(static_cast<uint64_t>(model.parameters));
  out->set_weight_format(model.weight_format);
  out->set_backend(model.backend);
  out->set_max_prompt_tokens(model.max_prompt_tokens);
  out->set_max_tokens(model.max_tokens);
  Fill(status, model.schedule, out->mutable_drafter());
}

}  // namespace tandem
