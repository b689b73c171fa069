#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/model/config.h"
#include "common/model/weights_source.h"

namespace tandem::cli {

// Bytes of this build's processes for a model, without the scratch memory of a pass.
struct MemoryEstimate {
  int64_t weights = 0;          // as the file has them, see WeightsComponent::loaded_bytes
  int64_t state = 0;            // of all sequences
  int64_t log = 0;              // rollback logs of all sequences
  int64_t sidecar_weights = 0;  // 0 without a sidecar
  int64_t sidecar_ring = 0;     // of all sequences
  int64_t total() const { return weights + state + log + sidecar_weights + sidecar_ring; }
};

struct SidecarReport {
  std::string folder = {};  // empty: none found
  bool matches = false;
  std::string reason = {};  // why not; with forcing, what does not match
  int64_t parameters = 0;
  int depth = 0;
  int window = 0;
  int64_t draft_vocabulary = 0;
  int64_t training_tokens = 0;
};

struct ModelReport {
  std::string name = {};
  std::string checkpoint = {};
  std::string hash = {};
  std::string size_class = {};
  ModelConfig config = {};
  int64_t parameters = 0;
  std::vector<WeightsComponent> components = {};
  int integer_rounded = 0;            // matrices of fp8, see WeightsSource
  std::string vocabulary_file = {};   // empty: none
  size_t vocabulary_tokens = 0;       // of a usable file
  std::string vocabulary_error = {};  // why the file is not usable
  int max_sequences = 0;
  MemoryEstimate memory = {};
  SidecarReport sidecar = {};
};

// Reads the checkpoint as a whole. Errors say what is wrong with the model; a vocabulary or
// sidecar that is not usable is part of the report. `mtp_path`: auto, off or a folder.
absl::StatusOr<ModelReport> InspectModel(const std::string& path, const std::string& mtp_path,
                                         bool mtp_force, int max_sequences);

// "2.9B" where layers and width are those of a published RWKV-7 size, else the parameter count with
// two digits, as "9.1M".
std::string SizeClass(int layers, int width, int64_t parameters);

// `weights`: their bytes.
MemoryEstimate EstimateMemory(const ModelConfig& config, int64_t weights, int max_sequences);

nlohmann::json ReportJson(const ModelReport& report);
// For people, several lines.
std::string ReportText(const ModelReport& report);

}  // namespace tandem::cli
