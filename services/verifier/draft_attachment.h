#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/ipc/channel.h"
#include "common/ipc/descriptors.h"
#include "common/metrics/metrics.h"
#include "services/verifier/draft_blocks.h"
#include "services/verifier/draft_handshake.h"
#include "services/verifier/draft_probe.h"
#include "services/verifier/handoff.h"

namespace tandem {

// What a drafter needs to map the memory of its attachment.
struct DraftOffer {
  uint64_t epoch = 0;
  uint64_t nonce = 0;
  std::string descriptor_token;
  std::string feature_handle;  // 64 bytes on a GPU, empty on the CPU
  bool device = false;         // device mode will be tried
};

// The life of attachments: who holds which block, which one is live. The gRPC threads and the
// service's own thread call the control side, the engine thread the engine side; this object is all
// that they share. Thread-safe.
//
// Hello -> Prove -> Probe -> Activate -> live until End. A block is offered again only when its
// last holder answered closed or has ended, and the engine does not use it.
class DraftAttachment final {
 public:
  struct Options {
    VerifierFacts facts;
    std::vector<int> weight_descriptors;  // of embedding and head; none on a GPU
    std::string sidecar;                  // name for the status
    // Measures device mode; null: host mode always.
    DeviceProbe* device_probe = nullptr;
    bool force_device = false;  // device mode always; else where MPS is active and it is fast
    std::string reason;         // of the mode, where no drafter decides it
  };
  // All that is passed in must outlive the attachment.
  DraftAttachment(Options options, const DraftBlocks* blocks, ipc::DescriptorServer* descriptors,
                  VerifierMetrics* metrics);

  // Control side. Every call names the epoch it means; an epoch that is over is ignored.
  std::variant<DraftOffer, DraftRefusal> Hello(const DrafterFacts& drafter);
  std::optional<DraftRefusal> Prove(uint64_t epoch, uint64_t answer);
  // Measures the hand-off and chooses the mode, in a few seconds at most; DEADLINE_EXCEEDED where
  // the drafter does not answer, and the probe's error where device mode was forced and fails.
  absl::Status Probe(uint64_t epoch);
  // Whether it is in device mode.
  bool Activate(uint64_t epoch);
  // The attachment is over. `reason`: closed, died, late, revoked. The memory stays the drafter's
  // until Closed or death.
  void End(uint64_t epoch, const std::string& reason);
  void Closed(uint64_t epoch);
  // Refuses every later hello with DRAINING.
  void Drain();
  // Epochs that the engine gave up on since the last call.
  std::vector<uint64_t> TakeCondemned();

  // Engine side. The epoch of the live attachment, 0 where there is none.
  uint64_t live_epoch() const { return live_epoch_.load(std::memory_order_acquire); }
  struct Attached {
    ipc::BlockView view;
    bool device = false;  // in device mode
  };
  // The live attachment's memory, which no other attachment gets until Release. One hold at a time.
  std::optional<Attached> Acquire();
  void Release();
  // Ends the live attachment because the drafter does not keep up.
  void Condemn(uint64_t epoch);

  // Waits until no living drafter can have the memory mapped, for `most` at most; whether it came
  // to that.
  bool AwaitReturned(absl::Duration most);

  HandoffStatus Status() const;

 private:
  struct Holder {
    uint64_t epoch = 0;  // 0: nobody
    int64_t pid = 0;
    std::string token;  // not withdrawn yet
    std::optional<ipc::DescriptorClaim> claim;
  };
  enum class Phase { kNone, kOffered, kProven, kLive };

  absl::Status ProbeDevice(const ipc::BlockView& view, RoundTrip& round_trip, std::string& reason);
  // Whether the block's last holder is gone or never mapped it.
  static bool Returned(const Holder& holder);
  int FreeBlock(const DrafterFacts& drafter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Current(uint64_t epoch, Phase phase) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Withdraw(Holder& holder) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndLocked(const std::string& reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const DraftBlocks* const blocks_;
  ipc::DescriptorServer* const descriptors_;
  VerifierMetrics* const metrics_;
  std::atomic<uint64_t> live_epoch_{0};

  mutable absl::Mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kNone;
  uint64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;  // of the newest attachment
  int block_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t nonce_ ABSL_GUARDED_BY(mu_) = 0;
  bool offered_device_ ABSL_GUARDED_BY(mu_) = false;
  bool device_ ABSL_GUARDED_BY(mu_) = false;  // mode of the newest attachment
  int held_block_ ABSL_GUARDED_BY(mu_) = -1;  // by the engine
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  std::array<Holder, kDraftBlocks> holders_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> condemned_ ABSL_GUARDED_BY(mu_);
  HandoffStatus status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem
