#pragma once

#include <cstdint>
#include <mutex>

namespace tandem {

// Stream words of the CPU backend, whose ops run at once: a wait blocks its caller. The contracts
// are those of Backend.
class WordsCpu final {
 public:
  void Wait(uint32_t* word, uint32_t value);
  static void Write(uint32_t* word, uint32_t value);
  bool Release();

 private:
  std::mutex mutex_;
  uint32_t* word_ = nullptr;  // of the pending wait; null: none
  uint32_t value_ = 0;
};

}  // namespace tandem
