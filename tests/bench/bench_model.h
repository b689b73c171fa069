#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace tandem {

template <class T>
T Value(absl::StatusOr<T> value) {
  CHECK_OK(value.status());
  return *std::move(value);
}

// `values` must not be empty.
inline double Percentile(std::vector<double> values, size_t percent) {
  std::sort(values.begin(), values.end());
  return values[values.size() * percent / 100];
}

// Milliseconds of CLOCK_MONOTONIC, or of CLOCK_PROCESS_CPUTIME_ID: all threads together.
inline double Now(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// Times of one repeated piece of work.
class Times final {
 public:
  template <class Work>
  void Measure(const Work& work) {
    const double start = Now(CLOCK_MONOTONIC);
    const double cpu_start = Now(CLOCK_PROCESS_CPUTIME_ID);
    work();
    wall_.push_back(Now(CLOCK_MONOTONIC) - start);
    cpu_.push_back(Now(CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
  }

  double median() const { return Percentile(wall_, 50); }
  double p10() const { return Percentile(wall_, 10); }  // as if nobody else used the machine
  double cpu() const { return Percentile(cpu_, 10); }

 private:
  std::vector<double> wall_, cpu_;  // milliseconds
};

// Real text, because the cost of ffn.value depends on which neurons live: `ring_case.ids` of a
// golden file.
inline std::vector<int32_t> ReadText(const std::string& path) {
  std::ifstream file(path);
  CHECK(file.good()) << "no file " << path;
  return nlohmann::json::parse(file)["ring_case"]["ids"].get<std::vector<int32_t>>();
}

}  // namespace tandem
