#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "services/cli/bench_load.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::cli {

struct BenchReport {
  v1::GetModelResponse model = {};
  LoadOptions options = {};
  // Speed runs with weights that nobody trained: what was made up, for every table and line; empty
  // for a real model.
  std::string synthetic = {};
  bool simulated = false;  // acceptance: replies with drafts are others than those without
  std::vector<LevelResult> levels = {};
  std::optional<PrefillResult> prefill = {};
  std::optional<HopResult> hop = {};
};

// Two rows per concurrency for speed, two for waiting, and a paragraph each for the rest; no table
// is wider than 80 columns. Numbers that were not measured show as "-".
std::string BenchTable(const BenchReport& report);

// The same and more as one object, with machine, version, date and settings.
nlohmann::json BenchJson(const BenchReport& report);

}  // namespace tandem::cli
