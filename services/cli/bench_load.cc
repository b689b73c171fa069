#include "services/cli/bench_load.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "services/cli/reply.h"

namespace tandem::cli {
namespace {

// Any fixed one: a reply with drafts is compared with the one without.
constexpr uint64_t kSeed = 1;
constexpr int kShortPromptTokens = 16;

struct Outcome {
  Reply reply;
  absl::Status status;
};

v1::GenerateRequest BaseRequest(const LoadOptions& options, int max_tokens) {
  v1::GenerateRequest request;
  request.mutable_sampling()->set_temperature(options.temperature);
  request.mutable_sampling()->set_seed(kSeed);
  request.mutable_stopping()->set_max_tokens(static_cast<uint32_t>(max_tokens));
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

Outcome RunOne(const Client& client, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  Outcome outcome;
  outcome.status = client.Generate(
      request, context, [&](const v1::GenerateResponse& event) { outcome.reply.Add(event); });
  return outcome;
}

std::vector<Outcome> RunBlock(const std::vector<std::unique_ptr<Client>>& clients,
                              const std::vector<v1::GenerateRequest>& requests, double& wall) {
  std::vector<Outcome> outcomes(requests.size());
  std::vector<std::thread> threads;
  const absl::Time begin = absl::Now();
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back(
        [&, i] { outcomes[i] = RunOne(*clients[i % clients.size()], requests[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  wall += absl::ToDoubleSeconds(absl::Now() - begin);
  return outcomes;
}

void Record(const std::vector<Outcome>& outcomes, ModeResult& mode) {
  for (const Outcome& outcome : outcomes) {
    ++mode.replies;
    if (!outcome.status.ok()) {
      if (mode.errors++ == 0) mode.first_error = std::string(outcome.status.message());
      continue;
    }
    const Reply& reply = outcome.reply;
    mode.tokens += reply.token_ids().size();
    mode.drafts.Add(reply.usage());
    mode.first_token.push_back(reply.first_token_seconds());
    mode.message_interval.insert(mode.message_interval.end(), reply.message_intervals().begin(),
                                 reply.message_intervals().end());
    if (!reply.message_intervals().empty()) {
      mode.per_token.push_back(1 / reply.DecodeTokensPerSecond());
    }
  }
}

std::vector<v1::GenerateRequest> BlockRequests(const LoadOptions& options, int concurrency,
                                               int block, bool drafted) {
  std::vector<v1::GenerateRequest> requests;
  const int prompts = static_cast<int>(options.prompts.size());
  for (const int index : BlockPrompts(prompts, concurrency, block)) {
    v1::GenerateRequest request = BaseRequest(options, options.max_tokens);
    request.set_prompt_utf8(options.prompts[static_cast<size_t>(index)].text);
    if (!drafted) request.mutable_speculation()->set_max_drafts(0);
    if (drafted && options.max_drafts) {
      request.mutable_speculation()->set_max_drafts(*options.max_drafts);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

int CountDifferent(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  int different = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].status.ok() || !b[i].status.ok()) continue;
    if (a[i].reply.token_ids() != b[i].reply.token_ids()) ++different;
  }
  return different;
}

// `count` token ids of real text.
absl::StatusOr<v1::TokenInput> TextTokens(const Client& client, const LoadOptions& options,
                                          int count) {
  std::string text;
  for (const BenchPrompt& prompt : options.prompts) absl::StrAppend(&text, prompt.text, "\n\n");
  ASSIGN_OR_RETURN(const v1::TokenizeResponse tokens, client.Tokenize(text));
  v1::TokenInput input;
  for (int i = 0; i < count; ++i) input.add_ids(tokens.ids(i % tokens.ids_size()));
  return input;
}

absl::StatusOr<double> FirstTokenSeconds(const Client& client, const v1::GenerateRequest& request) {
  const Outcome outcome = RunOne(client, request);
  RETURN_IF_ERROR(outcome.status);
  return outcome.reply.first_token_seconds();
}

}  // namespace

LevelResult RunLevel(const std::vector<std::unique_ptr<Client>>& clients,
                     const LoadOptions& options, int concurrency) {
  LevelResult result{.concurrency = concurrency};
  const int prompts = static_cast<int>(options.prompts.size());
  const int blocks = BlockCount(prompts, concurrency, options.repeats);
  for (int block = 0; block < blocks; ++block) {
    std::vector<Outcome> outcomes[2];
    for (int turn = 0; turn < 2; ++turn) {
      const bool drafted = (block + turn) % 2 == 0;
      ModeResult& mode = drafted ? result.drafted : result.plain;
      outcomes[turn] =
          RunBlock(clients, BlockRequests(options, concurrency, block, drafted), mode.wall);
      Record(outcomes[turn], mode);
    }
    result.different += CountDifferent(outcomes[0], outcomes[1]);
    options.on_progress(absl::StrFormat(
        "%d at a time: block %d of %d, %.0f tok/s with drafts, %.0f without", concurrency,
        block + 1, blocks, result.drafted.TokensPerSecond(), result.plain.TokensPerSecond()));
  }
  return result;
}

absl::StatusOr<PrefillResult> RunPrefill(const Client& client, const LoadOptions& options,
                                         int prompt_tokens, int samples) {
  v1::GenerateRequest longer = BaseRequest(options, 1);
  ASSIGN_OR_RETURN(*longer.mutable_tokens(), TextTokens(client, options, prompt_tokens));
  v1::GenerateRequest shorter = BaseRequest(options, options.max_tokens);
  ASSIGN_OR_RETURN(*shorter.mutable_tokens(), TextTokens(client, options, kShortPromptTokens));
  shorter.mutable_speculation()->set_max_drafts(0);
  std::vector<double> first, per_token;
  for (int i = 0; i < samples; ++i) {
    ASSIGN_OR_RETURN(const double seconds, FirstTokenSeconds(client, longer));
    first.push_back(seconds);
    const Outcome decode = RunOne(client, shorter);
    RETURN_IF_ERROR(decode.status);
    per_token.push_back(1 / decode.reply.DecodeTokensPerSecond());
    options.on_progress(
        absl::StrCat("prompt of ", prompt_tokens, " tokens: ", i + 1, " of ", samples));
  }
  return PrefillResult{.prompt_tokens = prompt_tokens,
                       .samples = samples,
                       .first_token = Percentile(first, 50),
                       .decode_per_token = Percentile(per_token, 50)};
}

absl::StatusOr<HopResult> RunHop(const Client& router, const Client& verifier,
                                 const LoadOptions& options, int samples) {
  v1::GenerateRequest request = BaseRequest(options, 1);
  ASSIGN_OR_RETURN(*request.mutable_tokens(), TextTokens(router, options, kShortPromptTokens));
  HopResult result{.samples = samples};
  for (int i = 0; i < samples; ++i) {
    for (int turn = 0; turn < 2; ++turn) {
      const bool through_router = (i + turn) % 2 == 0;
      ASSIGN_OR_RETURN(const double seconds,
                       FirstTokenSeconds(through_router ? router : verifier, request));
      (through_router ? result.router : result.verifier).push_back(seconds);
    }
  }
  options.on_progress(absl::StrCat("router against verifier: ", samples, " of each"));
  return result;
}

}  // namespace tandem::cli
