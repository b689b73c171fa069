#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/ipc/layout.h"
#include "services/verifier/draft_attachment.h"

namespace tandem {

// Serves tandem.v1.DraftService on a unix socket of mode 0600: drafters attach here. The stream is
// the lease: when it breaks, or heartbeats stay out, the attachment is over.
//
// gRPC's threads and one thread of its own (heartbeats, leases, probe) touch the attachment object
// only; neither ever waits for the engine, nor the engine for them.
class DraftService final {
 public:
  struct Options {
    std::string socket;
    std::string descriptor_socket;
    // What an offer says of the base model and of the memory.
    std::string model;
    std::string model_hash;
    int layers = 0;
    int max_drafts = 0;
    ipc::Layout layout;
    uint64_t embedding_bytes = 0;
    uint64_t head_bytes = 0;
    uint32_t head_format = 0;
    // On a GPU 64 bytes each, empty on the CPU.
    std::string embedding_handle;
    std::string head_handle;
    // An attachment without a sign of life for so long is over. Heartbeats go out every second, or
    // three per lease.
    double lease_seconds = 5;
    // From hello to proof: the drafter loads its weights meanwhile.
    double handshake_seconds = 30;
    // From revoke to the end of the stream.
    double revoke_seconds = 2;
  };

  // UNAVAILABLE, naming the socket, where it cannot be bound. `attachment` must outlive the
  // service.
  static absl::StatusOr<std::unique_ptr<DraftService>> Start(const Options& options,
                                                             DraftAttachment* attachment);
  ~DraftService();

  // Revokes the drafter and refuses others.
  void Drain();

  struct Impl;

 private:
  explicit DraftService(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
