#pragma once

#include <algorithm>
#include <chrono>
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

// Times of one repeated piece of work.
class Times final {
 public:
  template <class Work>
  void Measure(const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const auto end = std::chrono::steady_clock::now();
    milliseconds_.push_back(std::chrono::duration<double, std::milli>(end - start).count());
  }

  double median() const { return Percentile(milliseconds_, 50); }
  double p10() const {
    return Percentile(milliseconds_, 10);
  }  // as if nobody else used the machine
  double p90() const { return Percentile(milliseconds_, 90); }
  size_t count() const { return milliseconds_.size(); }

 private:
  std::vector<double> milliseconds_;
};

// Real text, because the cost of ffn.value depends on which neurons live: `ring_case.ids` of a
// golden file.
inline std::vector<int32_t> ReadText(const std::string& path) {
  std::ifstream file(path);
  CHECK(file.good()) << "no file " << path;
  return nlohmann::json::parse(file)["ring_case"]["ids"].get<std::vector<int32_t>>();
}

}  // namespace tandem
