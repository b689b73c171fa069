#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/model/weights.h"
#include "services/verifier/engine_options.h"

namespace tandem {

// What will lie in the backend's memory for one purpose.
struct MemoryShare {
  std::string what;  // "the head"
  size_t bytes = 0;
  std::string flags;  // that lower it; may be empty
};

// Known before anything is allocated: the weights in their formats, the states and the largest
// pass. Recorded graphs are not counted.
std::vector<MemoryShare> PlanMemory(const Backend& backend, const ModelWeights::Bytes& weights,
                                    const ModelConfig& config, const EngineOptions& engine);

// What the linear ops of the largest pass use beside that: with rounded inputs or cuBLASLt on a
// GPU.
MemoryShare LinearShare(const Backend& backend, const ModelConfig& config,
                        const EngineOptions& engine, bool rounded_inputs);

// What a drafter process maps: the blocks of the hand-off.
absl::StatusOr<MemoryShare> DraftBlocksShare(const ModelConfig& config,
                                             const EngineOptions& engine);

// About what a drafter needs, in this process or another on the same device.
MemoryShare SidecarShare(const Backend& backend, const MtpFile& sidecar, WeightFormat format,
                         int max_sequences);

size_t TotalOf(const std::vector<MemoryShare>& plan);

// "7.9 GiB: 6.2 GiB for ... (--weights), ..."
std::string PlanText(const std::vector<MemoryShare>& plan);

// RESOURCE_EXHAUSTED, with the plan, where it needs more than `free` bytes.
absl::Status CheckPlan(const std::vector<MemoryShare>& plan, const std::string& backend,
                       std::optional<size_t> free);

}  // namespace tandem
