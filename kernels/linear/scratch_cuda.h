#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// A piece of device memory, dealt out from its beginning; ends the process where more is asked for
// than Backend::ReserveLinear was told.
struct ScratchCuda {
  uint8_t* data = nullptr;
  size_t bytes = 0;
};
class ScratchTaker final {
 public:
  explicit ScratchTaker(const ScratchCuda& scratch) : scratch_(scratch) {}
  void* Take(size_t bytes);  // 256-byte aligned

 private:
  const ScratchCuda scratch_;
  size_t used_ = 0;
};

// What linear ops use beside their arguments, one op at a time.
struct LinearScratchCuda {
  ScratchCuda rows;  // of RoundRowsCuda
};

}  // namespace tandem
