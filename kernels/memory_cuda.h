#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>

#include "kernels/backend.h"

struct CUstream_st;

namespace tandem {

// Device memory of the CUDA backend: the contracts are those of Backend. Used with the device's
// context current.
class MemoryCuda final {
 public:
  explicit MemoryCuda(CUstream_st* stream) : stream_(stream) {}
  ~MemoryCuda();  // nothing may still run on the stream
  MemoryCuda(const MemoryCuda&) = delete;
  MemoryCuda& operator=(const MemoryCuda&) = delete;

  void* Allocate(size_t bytes);
  void* AllocateExported(size_t bytes, ExportHandle* handle);
  void* Import(const ExportHandle& handle);
  void Unimport(void* memory);  // nothing enqueued may still use it
  // Runs `use` with memory that is there for the while: nothing enqueued may use it any more when
  // it returns. False, with `use` not run, when there is too little. Nothing to do for 0 bytes.
  static bool WithScratch(size_t bytes, const std::function<void(uint8_t*)>& use);

 private:
  CUstream_st* stream_;
  std::set<void*> own_;
  std::set<void*> imported_;
};

}  // namespace tandem
