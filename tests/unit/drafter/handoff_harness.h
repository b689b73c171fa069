#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/ipc/descriptors.h"
#include "common/metrics/metrics.h"
#include "kernels/backend.h"
#include "services/verifier/draft_attachment.h"
#include "services/verifier/ipc_draft_port.h"

namespace tandem {

inline constexpr ipc::LayoutSizes kTestSizes = {
    .slots = 8, .max_lanes = 4, .max_rows = 32, .width = 16, .vocab = 1000};

// Of the backend's GPU where it is not the CPU's.
inline constexpr char kHarnessUuid[] = "GPU-00000000-0000-0000-0000-000000000001";

// The verifier's side of a hand-off without gRPC: blocks, descriptors, attachment, port.
class HandoffHarness final {
 public:
  explicit HandoffHarness(DraftDeadline::Options deadline = {.floor_seconds = 5},
                          double release_window_seconds = 10,
                          std::unique_ptr<Backend> backend = MakeCpuBackend(1), bool device = false,
                          uint64_t first_step = 1);
  ~HandoffHarness();

  // Facts that the verifier accepts from this process: the verifier claims another PID.
  DrafterFacts Facts() const;
  // Of this process on the harness's device.
  ipc::Identity Identity() const;
  // One round with one lane of `count` positions; the drafts that came. In device mode all but the
  // first position are accepted drafts, and one more row is a draft that was not accepted.
  Drafts Round(int slot, int64_t position, int count, int wanted);
  // What FakeDrafter answers to the same.
  static Drafts Expected(int slot, int64_t position, int count, int wanted);
  static int32_t Token(int slot, int64_t position) {
    return static_cast<int32_t>((slot * 131 + position * 17) % kTestSizes.vocab);
  }
  double CounterValue(const std::string& line) const;  // of the metrics page; -1: no such line

  // The drafts of the outstanding round as a pass of device mode finds them.
  Drafts Take(int slot, int wanted);

  std::unique_ptr<Backend> backend;
  std::unique_ptr<Backend> probe_backend;
  std::unique_ptr<DeviceProbe> probe;
  std::unique_ptr<MetricsPage> page;
  std::unique_ptr<VerifierMetrics> metrics;
  std::unique_ptr<DraftBlocks> blocks;
  std::unique_ptr<ipc::DescriptorServer> descriptors;
  std::unique_ptr<ipc::Region> embedding;
  std::unique_ptr<ipc::Region> head;
  // Embedding and head of a backend that exports by handles.
  ExportHandle embedding_handle;
  ExportHandle head_handle;
  std::unique_ptr<DraftAttachment> attachment;
  std::unique_ptr<IpcDraftPort> port;
  DraftOutcome outcome = DraftOutcome::kNoDrafter;  // of the last Round

 private:
  void DeviceRound(PublishedLane lane);
};

// A drafter's end in the same process, up to the point where it is told to stop: a peer that can be
// scripted.
class ScriptedPeer final {
 public:
  // Attaches through the whole handshake; null, with a test failure, where it is refused.
  static std::unique_ptr<ScriptedPeer> Attach(HandoffHarness& harness, uint64_t closed_epoch = 0);

  uint64_t epoch() const { return epoch_; }
  const ipc::DrafterChannel& channel() const { return channel_; }
  Backend* backend() const { return backend_.get(); }

 private:
  uint64_t epoch_ = 0;
  std::unique_ptr<ipc::Region> control_;
  std::unique_ptr<Backend> backend_;
  ipc::DrafterChannel channel_;
};

// The memory of an offer as a drafter would map it.
struct MappedOffer {
  std::unique_ptr<ipc::Region> control;
  std::unique_ptr<Backend> backend;
  void* features = nullptr;
  uint64_t answer = 0;  // the right one; not yet in the block
};
MappedOffer MapOffer(const HandoffHarness& harness, const DraftOffer& offer);

}  // namespace tandem
