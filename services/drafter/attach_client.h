#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ipc/identity.h"
#include "common/ipc/layout.h"

namespace tandem {

// What a drafter tells a verifier of its sidecar.
struct SidecarFacts {
  std::string base_model;
  int layers = 0;
  int width = 0;
  int taps[2] = {-1, -1};
  int depth = 0;
  int window = 0;
  int max_drafts = 0;
  std::string hash;    // over its weights, 16 hex digits
  bool force = false;  // although the base model or the verifier's sidecar differs
};

// What a verifier offers: its base model and the memory to map. Nothing of it is checked yet.
struct AttachOffer {
  std::string model;
  int layers = 0;
  uint64_t epoch = 0;
  double lease_seconds = 0;
  uint32_t layout_version = 0;
  ipc::Layout layout;
  std::string descriptor_socket;
  std::string descriptor_token;
  uint64_t embedding_bytes = 0;
  uint64_t head_bytes = 0;
  uint32_t head_format = 0;
  // On a GPU 64 bytes each, empty on the CPU.
  std::string feature_handle;
  std::string embedding_handle;
  std::string head_handle;
  uint64_t nonce = 0;
  bool device = false;  // device mode will be tried
};

// One attachment as the drafter's end of the stream: handshake, heartbeats, lease. Thread-safe.
class AttachClient final {
 public:
  struct Hello {
    ipc::Identity identity;
    SidecarFacts sidecar;
    uint64_t closed_epoch = 0;  // every mapping up to it is closed
  };

  // Starts the stream to the verifier's socket and says hello; does not wait.
  AttachClient(const std::string& socket, const Hello& hello);
  // Ends the stream; waits at most a second for what was said to leave.
  ~AttachClient();
  AttachClient(const AttachClient&) = delete;
  AttachClient& operator=(const AttachClient&) = delete;

  // UNAVAILABLE where there is no verifier, FAILED_PRECONDITION "<WORD>: <message>" for a refusal,
  // DEADLINE_EXCEEDED, ABORTED for an offer that is not well-formed.
  absl::StatusOr<AttachOffer> WaitOffer(absl::Duration timeout);
  // After every mapping is made; heartbeats start.
  void SendProof(uint64_t epoch, uint64_t answer, double lease_seconds);
  bool ready() const;
  // Once ready: in device mode.
  bool device_mode() const;
  // The attachment is over: revoked, refused, broken, or the verifier gave no sign of life for the
  // lease.
  bool over() const;
  // Why, once it is over.
  absl::Status status() const;
  // Every mapping of the epoch is closed.
  void SendClosed(uint64_t epoch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
