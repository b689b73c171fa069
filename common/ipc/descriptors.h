#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ipc/unique_fd.h"

namespace tandem::ipc {

inline constexpr int kMaxDescriptors = 8;

// The process that took descriptors, as the kernel names it.
struct DescriptorClaim {
  int64_t pid = 0;
  UniqueFd pidfd;  // readable once the process has ended
};

// Hands file descriptors to processes of the same user over a unix socket of mode 0600. A peer
// shows a token that it got elsewhere; a token works once. Thread-safe; one thread of its own
// serves one peer at a time, each with a deadline on every read.
class DescriptorServer final {
 public:
  // Listens at `path`, replacing a stale socket file. INVALID_ARGUMENT where the path is too long
  // for a socket, else the error of the system, naming the path.
  static absl::StatusOr<std::unique_ptr<DescriptorServer>> Start(const std::string& path);
  ~DescriptorServer();  // removes the socket
  DescriptorServer(const DescriptorServer&) = delete;
  DescriptorServer& operator=(const DescriptorServer&) = delete;

  const std::string& path() const;

  // A new token of 16 bytes for `fds` (1 to kMaxDescriptors), which stay the caller's and must stay
  // open until Withdraw.
  std::string Offer(std::vector<int> fds);
  // Ends the token and says who took the descriptors, if anyone did. Nobody can take them
  // afterwards.
  std::optional<DescriptorClaim> Withdraw(const std::string& token);

 private:
  struct Impl;
  explicit DescriptorServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Takes exactly `count` descriptors. PERMISSION_DENIED for a token that is unknown or used,
// DEADLINE_EXCEEDED, INVALID_ARGUMENT for another number of descriptors, UNAVAILABLE where nobody
// listens.
absl::StatusOr<std::vector<UniqueFd>> TakeDescriptors(const std::string& path,
                                                      const std::string& token, int count,
                                                      absl::Duration timeout);

}  // namespace tandem::ipc
