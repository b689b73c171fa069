#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace tandem::cli {

// Lines of standard input, and Ctrl-C as something to ask for instead of an end of the program.
class LineInput final {
 public:
  // Blocks SIGINT in the calling thread and those started later.
  static absl::StatusOr<LineInput> Create();
  ~LineInput();
  LineInput(LineInput&& other) noexcept;
  LineInput& operator=(LineInput&&) = delete;

  // Waits for the next line; absent at the end of the input and after Ctrl-C.
  std::optional<std::string> Read();
  // Readable after Ctrl-C, until TakeInterrupt.
  int interrupt_fd() const { return interrupt_fd_; }
  void TakeInterrupt();

 private:
  explicit LineInput(int interrupt_fd) : interrupt_fd_(interrupt_fd) {}
  int interrupt_fd_;
  std::string buffer_;
};

}  // namespace tandem::cli
