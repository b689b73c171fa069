#include "tests/bench/gpu_step/step_report.h"

#include <cstdio>
#include <fstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/hash.h"

namespace tandem {

StepReport::StepReport(std::string label, nlohmann::json common, const std::string& path,
                       double read_rate)
    : label_(std::move(label)), common_(std::move(common)), path_(path), read_rate_(read_rate) {
  common_["read_gb_per_second"] = read_rate / 1e9;
  std::printf("%-24s %-14s %5s %9s %9s %9s %10s %6s %9s %8s %6s\n", "", "", "n", "p10 ms",
              "median ms", "p90 ms", "tok/s", "live", "MB", "GB/s", "share");
}

void StepReport::Add(const StepRow& row) {
  const double seconds = row.times.median() / 1e3;
  const double rate = row.bytes / seconds;
  std::printf("%-24s %-14s %5zu %9.3f %9.3f %9.3f %10.1f %5.1f%% %9.1f %8.1f %5.1f%%\n",
              label_.c_str(), row.what.c_str(), row.times.count(), row.times.p10(),
              row.times.median(), row.times.p90(), row.tokens / seconds, row.live * 100,
              row.bytes / 1e6, rate / 1e9, ShareOf(rate) * 100);
  std::fflush(stdout);
  Write({{"what", row.what},
         {"rows", row.rows},
         {"lanes", row.lanes},
         {"n", row.times.count()},
         {"p10_ms", row.times.p10()},
         {"median_ms", row.times.median()},
         {"p90_ms", row.times.p90()},
         {"tokens_per_second", row.tokens / seconds},
         {"live_share", row.live},
         {"bytes", row.bytes},
         {"gb_per_second", rate / 1e9},
         {"share_of_read_rate", ShareOf(rate)}});
}

void StepReport::AddOp(const std::string& what, const OpBytes& op, double milliseconds) {
  const double rate = op.bytes / (milliseconds / 1e3);
  std::printf("%-24s %-14s %-16s %9.1f us %9.1f MB %8.1f GB/s %5.1f%%\n", label_.c_str(),
              what.c_str(), op.op.c_str(), milliseconds * 1e3, op.bytes / 1e6, rate / 1e9,
              ShareOf(rate) * 100);
  Write({{"what", what},
         {"op", op.op},
         {"median_us", milliseconds * 1e3},
         {"bytes", op.bytes},
         {"gb_per_second", rate / 1e9},
         {"share_of_read_rate", ShareOf(rate)}});
}

void StepReport::AddHash(const std::string& what, uint64_t hash) {
  std::printf("%-24s hash of %s %s\n", label_.c_str(), what.c_str(), HashHex(hash).c_str());
  Write({{"what", "hash of " + what}, {"hash", HashHex(hash)}});
}

void StepReport::AddRatio(const std::string& what, double value) {
  std::printf("%-24s %-40s %9.3f\n", label_.c_str(), what.c_str(), value);
  Write({{"what", what}, {"value", value}});
}

void StepReport::Write(nlohmann::json line) {
  if (path_.empty()) return;
  line.update(common_);
  std::ofstream file(path_, std::ios::app);
  file << line.dump() << '\n';
  CHECK(file.good()) << "cannot write to " << path_;
}

}  // namespace tandem
