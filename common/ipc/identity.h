#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/ipc/unique_fd.h"

namespace tandem::ipc {

inline constexpr uint32_t kProtocolMajor = 1;
inline constexpr uint32_t kProtocolMinor = 0;

// Who and where a process is, as far as sharing memory depends on it.
struct Identity {
  uint32_t protocol_major = kProtocolMajor;
  uint32_t protocol_minor = kProtocolMinor;
  std::string boot_id;         // equal means same machine
  uint64_t pid_namespace = 0;  // inode of /proc/self/ns/pid
  int64_t pid = 0;
  uint32_t uid = 0;
  std::string backend;      // Backend::name()
  std::string device_uuid;  // of a GPU; empty on the CPU
  bool mps = false;         // its contexts are shared through an MPS server
};

// Of this process. An error names the file of /proc that could not be read.
absl::StatusOr<Identity> OwnIdentity(const std::string& backend,
                                     const std::string& device_uuid = "");

// A descriptor that is readable once the process has ended. NOT_FOUND where there is no such
// process.
absl::StatusOr<UniqueFd> OpenPidfd(int64_t pid);

// True once the process of the pidfd has ended.
bool HasEnded(const UniqueFd& pidfd);

}  // namespace tandem::ipc
