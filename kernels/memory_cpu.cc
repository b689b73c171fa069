#include "kernels/memory_cpu.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace tandem {
namespace {

// Exported memory can never change its size, so a mapping of it can never fault.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
// From here on fewer, larger pages save more time than they waste memory.
constexpr size_t kHugeFrom = size_t{4} << 20;

void* Map(size_t bytes, int protection, int flags, int fd) {
  void* memory = mmap(nullptr, bytes, protection, flags, fd, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Bytes that can still be had without pushing other processes out. Asked first, because shared
// memory is not refused when it exceeds the machine: the kernel would start to kill processes
// instead.
size_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  size_t kib = 0;
  while (file >> name >> kib && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

MemoryCpu::~MemoryCpu() {
  for (const auto& [memory, bytes] : maps_) munmap(memory, bytes);
  for (const int fd : fds_) close(fd);
}

void* MemoryCpu::Allocate(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  if (bytes > AvailableBytes()) return nullptr;
  void* memory = Map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
  if (memory == nullptr) return nullptr;
  if (bytes >= kHugeFrom) madvise(memory, bytes, MADV_HUGEPAGE);
  maps_[memory] = bytes;
  return memory;
}

void* MemoryCpu::AllocateExported(size_t bytes, ExportHandle* handle) {
  bytes = std::max<size_t>(bytes, 1);
  if (bytes > AvailableBytes()) return nullptr;
  const int fd = memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return nullptr;
  fds_.push_back(fd);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  // Without room for every page a later write would end in SIGBUS.
  if (posix_fallocate(fd, 0, static_cast<off_t>(bytes)) != 0) return nullptr;
  if (fcntl(fd, F_ADD_SEALS, kSizeSeals) != 0) return nullptr;
  void* memory = Map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
  if (memory == nullptr) return nullptr;
  maps_[memory] = bytes;
  *handle = ExportHandle{.fd = fd, .bytes = bytes};
  return memory;
}

bool MemoryCpu::SealForReaders(const ExportHandle& handle) {
  return fcntl(handle.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0;
}

void* MemoryCpu::Import(const ExportHandle& handle, bool writable) {
  struct stat info = {};
  if (handle.bytes == 0 || fstat(handle.fd, &info) != 0) return nullptr;
  if (static_cast<uint64_t>(info.st_size) != handle.bytes) return nullptr;
  const int seals = fcntl(handle.fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) return nullptr;
  void* memory =
      Map(handle.bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, handle.fd);
  if (memory != nullptr) maps_[memory] = handle.bytes;
  return memory;
}

void MemoryCpu::Unimport(void* memory) {
  const auto found = maps_.find(memory);
  if (found == maps_.end()) return;
  munmap(memory, found->second);
  maps_.erase(found);
}

}  // namespace tandem
