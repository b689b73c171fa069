#include <cstdio>
#include <string>

#include "absl/flags/flag.h"
#include "common/base/flags.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/model/synthetic.h"
#include "common/model/weight_format.h"
#include "services/verifier/verifier.h"

using tandem::FromEnvironment;

ABSL_FLAG(std::string, model, "",
          "model folder or checkpoint file (.pth, .safetensors); or synthetic:2.9b, :7.2b, :13.3b "
          "or :tiny, random weights for timing");
ABSL_FLAG(double, synthetic_zeros, 0.90,
          "of a synthetic model: share of a token's channel-mix activations that are zero");
ABSL_FLAG(
    double, simulate_accepted, -1,
    "with a synthetic model: drafts kept per step on average, whatever it chose; below 0: off");
ABSL_FLAG(std::string, address, "127.0.0.1:0", "host:port to serve on; port 0 takes a free one");
ABSL_FLAG(std::string, metrics_address, "", "host:port of /metrics; empty: none");
ABSL_FLAG(std::string, ready_file, "", "written, as JSON with the bound addresses, when serving");
ABSL_FLAG(std::string, backend, "auto",
          "where the base model runs: cpu, cuda, or auto, which takes a GPU if there is one");
ABSL_FLAG(int, threads, 0, "threads of the CPU backend; 0: one per core");
ABSL_FLAG(std::string, weights, tandem::kAsTheFileIs,
          "format of the attention and channel-mix matrices: file, as it has them, or bf16, fp8, "
          "int8 or int6, to which those that it has not quantised are rounded");
ABSL_FLAG(std::string, activations, "exact",
          "inputs of these matrices: exact, or fp8, which rounds them as well, a scale per row");
ABSL_FLAG(bool, batch_invariant, true,
          "on a GPU, passes of every size run the same sums; false: those of more than 64 rows go "
          "through cuBLASLt, faster");
ABSL_FLAG(std::string, head_weights, tandem::kAsTheFileIs,
          "format of the head: file, bf16, fp8 or int8");
ABSL_FLAG(std::string, draft_weights, "bf16",
          "with --handoff=inprocess, format of the sidecar's matrices: bf16, fp8, int8 or int6");
ABSL_FLAG(std::string, handoff, "auto", "hand-off to the drafter: auto, host, inprocess or device");
ABSL_FLAG(std::string, draft_socket, "",
          "unix socket for the drafter process; empty: none can attach");
ABSL_FLAG(std::string, mtp_path, FromEnvironment("RWKV_MTP_PATH", "auto"),
          "sidecar: auto, off or a folder; default RWKV_MTP_PATH");
ABSL_FLAG(bool, mtp_force, FromEnvironment("RWKV_MTP_FORCE", "") == "1",
          "use a sidecar of another base model of the same width; default RWKV_MTP_FORCE");
ABSL_FLAG(std::string, draft_schedule, FromEnvironment("RWKV_MTP_K", "4:3,16:2,0:0"),
          "drafts per step by decoding sequences, limit:drafts; default RWKV_MTP_K");
ABSL_FLAG(int, max_sequences, 32, "sequences in a step, and state slots");
ABSL_FLAG(int, max_sessions, 1024, "sessions held, in slots or in host memory");
ABSL_FLAG(int, queue_limit, 256, "requests that may wait for a slot");
ABSL_FLAG(int, prefill_chunk, 256, "most prompt tokens of one sequence in a step");
ABSL_FLAG(int, prefill_budget, 512, "most prompt tokens of a step");
ABSL_FLAG(int, max_prompt_tokens, 65536, "most prompt tokens of a request");
ABSL_FLAG(int, max_tokens_limit, 8192, "most tokens of a reply");
ABSL_FLAG(absl::Duration, max_request_time, absl::Hours(1), "deadline of calls that bring none");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30), "time for running requests at a stop");
ABSL_FLAG(absl::Duration, stall_limit, absl::Seconds(30),
          "without progress for so long while work waits: liveness fails");

namespace tandem {
namespace {

// Generous, so that sizes computed from them stay in range; memory is the real limit.
constexpr int kManyLanes = 1 << 14;
constexpr int kManyTokens = 1 << 24;
constexpr int kManySessions = 1'000'000;

absl::Status Check(const VerifierOptions& options) {
  const EngineOptions& engine = options.engine;
  if (options.model.empty()) {
    return absl::InvalidArgumentError("--model: name a model folder or file");
  }
  RETURN_IF_ERROR(CheckFlag("threads", options.threads, 0, 1024));
  RETURN_IF_ERROR(CheckFlag("max_sequences", engine.max_sequences, 1, kManyLanes));
  RETURN_IF_ERROR(CheckFlag("max_sessions", engine.max_sessions, 0, kManySessions));
  RETURN_IF_ERROR(CheckFlag("queue_limit", engine.queue_limit, 0, kManySessions));
  RETURN_IF_ERROR(CheckFlag("prefill_chunk", engine.prefill_chunk, 1, kManyTokens));
  RETURN_IF_ERROR(CheckFlag("prefill_budget", engine.prefill_budget, 1, kManyTokens));
  RETURN_IF_ERROR(CheckFlag("max_prompt_tokens", engine.max_prompt_tokens, 1, kManyTokens));
  RETURN_IF_ERROR(CheckFlag("max_tokens_limit", options.max_tokens, 1, kManyTokens));
  RETURN_IF_ERROR(CheckPositive("max_request_time", options.max_request_time));
  return CheckPositive("stall_limit", options.stall_limit);
}

// What only holds for weights that nobody trained.
absl::Status CheckSynthetic(const VerifierOptions& options) {
  const double zeros = options.synthetic_zeros;
  if (!(zeros >= 0 && zeros < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--synthetic-zeros=", zeros, ": must be from 0 to below 1"));
  }
  const double accepted = options.engine.simulated_accepted;
  if (accepted < 0 || (SyntheticSize(options.model) && accepted <= kMaxDrafts)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--simulate-accepted=", accepted, ": must be at most ", kMaxDrafts,
      ", and works with --model=synthetic:SIZE only, since it falsifies what the model says"));
}

absl::StatusOr<VerifierOptions> ReadFlags() {
  VerifierOptions options;
  options.model = absl::GetFlag(FLAGS_model);
  options.synthetic_zeros = absl::GetFlag(FLAGS_synthetic_zeros);
  options.address = absl::GetFlag(FLAGS_address);
  options.metrics_address = absl::GetFlag(FLAGS_metrics_address);
  options.ready_file = absl::GetFlag(FLAGS_ready_file);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.threads = absl::GetFlag(FLAGS_threads);
  options.batch_invariant = absl::GetFlag(FLAGS_batch_invariant);
  options.draft_socket = absl::GetFlag(FLAGS_draft_socket);
  options.mtp_path = absl::GetFlag(FLAGS_mtp_path);
  options.mtp_force = absl::GetFlag(FLAGS_mtp_force);
  options.max_request_time = absl::GetFlag(FLAGS_max_request_time);
  options.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  options.stall_limit = absl::GetFlag(FLAGS_stall_limit);
  ASSIGN_OR_RETURN(options.weights.rounded_inputs,
                   ParseActivations("activations", absl::GetFlag(FLAGS_activations)));
  ASSIGN_OR_RETURN(
      options.weights.matrices,
      ParseFileWeightFormat("weights", absl::GetFlag(FLAGS_weights), AllWeightFormats()));
  ASSIGN_OR_RETURN(options.weights.head,
                   ParseFileWeightFormat("head-weights", absl::GetFlag(FLAGS_head_weights),
                                         HeadWeightFormats()));
  ASSIGN_OR_RETURN(
      options.draft_weights,
      ParseWeightFormat("draft-weights", absl::GetFlag(FLAGS_draft_weights), AllWeightFormats()));
  ASSIGN_OR_RETURN(options.handoff, ParseHandoff(absl::GetFlag(FLAGS_handoff)));
  EngineOptions& engine = options.engine;
  engine.max_sequences = absl::GetFlag(FLAGS_max_sequences);
  engine.max_sessions = absl::GetFlag(FLAGS_max_sessions);
  engine.queue_limit = absl::GetFlag(FLAGS_queue_limit);
  engine.prefill_chunk = absl::GetFlag(FLAGS_prefill_chunk);
  engine.prefill_budget = absl::GetFlag(FLAGS_prefill_budget);
  engine.max_prompt_tokens = absl::GetFlag(FLAGS_max_prompt_tokens);
  options.max_tokens = absl::GetFlag(FLAGS_max_tokens_limit);
  engine.simulated_accepted = absl::GetFlag(FLAGS_simulate_accepted);
  ASSIGN_OR_RETURN(engine.schedule, DraftSchedule::Parse(absl::GetFlag(FLAGS_draft_schedule)));
  RETURN_IF_ERROR(CheckSynthetic(options));
  RETURN_IF_ERROR(Check(options));
  return options;
}

absl::Status Main(StopSignals& signals) {
  ASSIGN_OR_RETURN(const VerifierOptions options, ReadFlags());
  return RunVerifier(options, signals);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::StopSignals signals;
  tandem::ParseServiceFlags(argc, argv, "verifier",
                            "tandem-verifier --model=FOLDER: the base model as a gRPC service");
  const absl::Status status = tandem::Main(signals);
  if (status.ok()) return 0;
  fprintf(stderr, "tandem-verifier: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
