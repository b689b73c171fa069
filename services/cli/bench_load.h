#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/bench_plan.h"
#include "services/cli/client.h"
#include "services/cli/statistics.h"

namespace tandem::cli {

struct LoadOptions {
  std::vector<BenchPrompt> prompts = {};
  int max_tokens = 128;  // of every reply, none ends earlier
  int repeats = 1;
  float temperature = 0;
  std::optional<uint32_t> max_drafts = {};  // of the drafted replies; absent: the server's schedule
  // Told after every block.
  std::function<void(const std::string&)> on_progress = [](const std::string&) {};
};

// What clients saw of the replies with drafting on, or off, at one concurrency. Seconds.
struct ModeResult {
  int replies = 0;
  int errors = 0;
  std::string first_error = {};
  uint64_t tokens = 0;
  double wall = 0;  // of the blocks, prompts included
  std::vector<double> first_token = {};
  std::vector<double> message_interval = {};
  std::vector<double> per_token = {};  // of one reply each, after its first message
  DraftCounts drafts = {};

  double TokensPerSecond() const { return static_cast<double>(tokens) / wall; }
};

struct LevelResult {
  int concurrency = 0;
  ModeResult drafted = {};
  ModeResult plain = {};
  // Replies whose tokens were not the same with and without drafts.
  int different = 0;
};

// Runs blocks of `concurrency` replies at a time, every block once with and once without drafts, in
// turns that also alternate which of the two comes first, so that both see the same machine. Failed
// replies are counted, they do not end the run.
LevelResult RunLevel(const std::vector<std::unique_ptr<Client>>& clients,
                     const LoadOptions& options, int concurrency);

struct PrefillResult {
  int prompt_tokens = 0;
  int samples = 0;
  double first_token = 0;       // median seconds from the request to its first token
  double decode_per_token = 0;  // median seconds, one reply without drafts in between
  double PrefillRate() const { return prompt_tokens / first_token; }
  double DecodeRate() const { return 1 / decode_per_token; }
};

// A prompt of `prompt_tokens` tokens and a plain reply to a short one, in turns.
absl::StatusOr<PrefillResult> RunPrefill(const Client& client, const LoadOptions& options,
                                         int prompt_tokens, int samples);

struct HopResult {
  int samples = 0;
  std::vector<double> router = {};  // seconds to the first token
  std::vector<double> verifier = {};
  double Added() const { return Percentile(router, 50) - Percentile(verifier, 50); }
};

// The same short request to the router and straight to its verifier, in turns.
absl::StatusOr<HopResult> RunHop(const Client& router, const Client& verifier,
                                 const LoadOptions& options, int samples);

}  // namespace tandem::cli
