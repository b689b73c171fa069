#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "kernels/backend.h"
#include "tests/forwarding_backend.h"

namespace tandem {

// The CPU's backend under the name of a GPU's, exporting memory as a GPU does: by 64 bytes that
// another process, or this one, maps it with, and without a descriptor.
class HandleBackend final : public ForwardingBackend {
 public:
  HandleBackend() : ForwardingBackend(MakeCpuBackend(1)) {}

  const char* name() const override { return "cuda"; }
  void* AllocateExported(size_t bytes, ExportHandle* handle) override {
    ExportHandle exported;
    void* memory = real().AllocateExported(bytes, &exported);
    const Origin origin = {.pid = getpid(), .fd = exported.fd};
    *handle = {.bytes = bytes};
    std::memcpy(handle->ipc, &origin, sizeof(origin));
    return memory;
  }
  bool SealForReaders(const ExportHandle& handle) override { return handle.bytes > 0; }
  void* Import(const ExportHandle& handle, bool writable) override {
    Origin origin;
    std::memcpy(&origin, handle.ipc, sizeof(origin));
    const std::string path =
        "/proc/" + std::to_string(origin.pid) + "/fd/" + std::to_string(origin.fd);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* memory = real().Import({.fd = fd, .bytes = handle.bytes}, writable);
    close(fd);
    return memory;
  }

 private:
  struct Origin {
    pid_t pid = 0;
    int fd = -1;
  };
};

}  // namespace tandem
