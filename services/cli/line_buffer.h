#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem::cli {

// Cuts a byte stream into lines. A line longer than 64 KiB is cut there.
class LineBuffer final {
 public:
  static constexpr size_t kMaxLine = 64 << 10;

  // The lines that `data` completed, without their newlines.
  std::vector<std::string> Append(absl::string_view data) {
    std::vector<std::string> lines;
    for (const char byte : data) {
      if (byte != '\n') partial_.push_back(byte);
      if (byte == '\n' || partial_.size() == kMaxLine) {
        lines.push_back(std::move(partial_));
        partial_.clear();
      }
    }
    return lines;
  }

  // What has no newline yet.
  std::string Flush() { return std::exchange(partial_, {}); }

 private:
  std::string partial_;
};

}  // namespace tandem::cli
