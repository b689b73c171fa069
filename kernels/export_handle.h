#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// Memory that another process can map: a file descriptor on the CPU, an IPC handle on a GPU.
struct ExportHandle {
  int fd = -1;           // CPU: sealed memfd, owned by the Backend that made it
  uint8_t ipc[64] = {};  // GPU: driver handle
  size_t bytes = 0;
};

}  // namespace tandem
