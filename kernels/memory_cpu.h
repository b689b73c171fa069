#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/backend.h"

namespace tandem {

// Host memory of the CPU backend: the contracts are those of Backend.
class MemoryCpu final {
 public:
  MemoryCpu() = default;
  ~MemoryCpu();
  MemoryCpu(const MemoryCpu&) = delete;
  MemoryCpu& operator=(const MemoryCpu&) = delete;

  void* Allocate(size_t bytes);
  void* AllocateExported(size_t bytes, ExportHandle* handle);
  void* Import(const ExportHandle& handle, bool writable);
  void Unimport(void* memory);
  static bool SealForReaders(const ExportHandle& handle);

 private:
  std::map<void*, size_t> maps_;  // address -> mapped bytes
  std::vector<int> fds_;          // of exported memory
};

}  // namespace tandem
