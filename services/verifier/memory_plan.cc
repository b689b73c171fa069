#include "services/verifier/memory_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/ipc/layout.h"
#include "common/model/rwkv7.h"
#include "common/model/state.h"
#include "kernels/linear/linear.h"
#include "services/verifier/draft_blocks.h"
#include "services/verifier/step.h"

namespace tandem {
namespace {

std::string SizeText(size_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? absl::StrFormat("%.1f MiB", mib) : absl::StrFormat("%.2f GiB", mib / 1024);
}

}  // namespace

std::vector<MemoryShare> PlanMemory(const Backend& backend, const ModelWeights::Bytes& weights,
                                    const ModelConfig& config, const EngineOptions& engine) {
  const int sequences = engine.max_sequences;
  const Step::Options step = {.max_lanes = sequences, .max_rows = engine.max_rows()};
  return {
      {"the layers' weights", weights.layers, "--weights"},
      {"the embedding table", weights.embedding, ""},
      {"the head", weights.head, "--head-weights"},
      {absl::StrCat("the states of ", sequences, " sequences"),
       RecurrentState::Bytes(config, sequences), "--max-sequences"},
      {absl::StrCat("passes of ", step.max_rows, " tokens"),
       Step::Bytes(backend, config, sequences, step), "--prefill-budget, --max-sequences"},
  };
}

MemoryShare LinearShare(const Backend& backend, const ModelConfig& config,
                        const EngineOptions& engine, bool rounded_inputs) {
  const Matrix largest = {.rows = std::max(config.ffn, config.vocab),
                          .cols = config.width,
                          .rounded_inputs = rounded_inputs};
  return {"the linear ops of a pass",
          backend.LinearBytes(Activations::LinearOps(config, engine.max_rows()), largest),
          "--prefill-budget, --max-sequences"};
}

absl::StatusOr<MemoryShare> DraftBlocksShare(const ModelConfig& config,
                                             const EngineOptions& engine) {
  ASSIGN_OR_RETURN(const ipc::Layout layout, ipc::ComputeLayout({.slots = engine.max_sequences,
                                                                 .max_lanes = engine.max_sequences,
                                                                 .max_rows = engine.max_rows(),
                                                                 .width = config.width,
                                                                 .vocab = config.vocab}));
  return MemoryShare{"the features shared with a drafter", kDraftBlocks * layout.feature_bytes,
                     "--prefill-budget, --max-sequences"};
}

// All parameters as matrices of the format, nearly all of which they are, and the keys and values.
MemoryShare SidecarShare(const Backend& backend, const MtpFile& sidecar, WeightFormat format,
                         int max_sequences) {
  constexpr int kSide = 1024;
  const size_t square = backend.PackedBytes({.format = format, .rows = kSide, .cols = kSide});
  const auto parameters = static_cast<size_t>(sidecar.parameter_count());
  const auto positions = static_cast<size_t>(sidecar.config().window + kMaxDrafts);
  return {"the sidecar",
          parameters * square / (kSide * kSide) + static_cast<size_t>(max_sequences) * positions *
                                                      2 * kMtpKeyHeads * kMtpHeadWidth *
                                                      sizeof(float),
          "--draft-weights, --max-sequences"};
}

size_t TotalOf(const std::vector<MemoryShare>& plan) {
  size_t total = 0;
  for (const MemoryShare& share : plan) total += share.bytes;
  return total;
}

std::string PlanText(const std::vector<MemoryShare>& plan) {
  std::string text = SizeText(TotalOf(plan));
  for (const MemoryShare& share : plan) {
    absl::StrAppend(&text, &share == plan.data() ? ": " : ", ", SizeText(share.bytes), " for ",
                    share.what);
    if (!share.flags.empty()) absl::StrAppend(&text, " (", share.flags, ")");
  }
  return text;
}

absl::Status CheckPlan(const std::vector<MemoryShare>& plan, const std::string& backend,
                       std::optional<size_t> free) {
  if (!free || TotalOf(plan) <= *free) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("not enough ", backend, " memory: ", SizeText(*free), " are free of ",
                   PlanText(plan), "; the flags in brackets lower it"));
}

}  // namespace tandem
