#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/bench/bench_model.h"
#include "tests/bench/gpu_step/bytes_moved.h"

namespace tandem {

// One timed kind of work.
struct StepRow {
  std::string what;  // "plain", "verify 4", "draft 3", "prefill 1024", "batch 8"
  int rows = 1;      // of the pass
  int lanes = 1;
  int tokens = 1;    // consumed for certain
  double live = 0;   // share of the inputs of ffn.value that are not zero in some row
  double bytes = 0;  // least that has to be moved
  Times times;
};

// The table on stdout and, where `path` is not empty, JSON lines appended to the file. Every line
// of both says "synthetic".
class StepReport final {
 public:
  // `common` goes into every JSON line, `label` into every line of the table.
  // read_rate: bytes per second that the device reads at most; 0 where unknown.
  StepReport(std::string label, nlohmann::json common, const std::string& path, double read_rate);

  void Add(const StepRow& row);
  // All calls of one op in a step of the kind `what`.
  void AddOp(const std::string& what, const OpBytes& op, double milliseconds);
  // Of results that may not change with speed.
  void AddHash(const std::string& what, uint64_t hash);
  // "verify 4 / plain".
  void AddRatio(const std::string& what, double value);

 private:
  void Write(nlohmann::json line);
  double ShareOf(double rate) const { return read_rate_ > 0 ? rate / read_rate_ : 0; }

  std::string label_;
  nlohmann::json common_;
  std::string path_;
  double read_rate_;
};

}  // namespace tandem
