#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/ipc/channel.h"
#include "common/metrics/metrics.h"
#include "services/verifier/device_rounds.h"
#include "services/verifier/draft_attachment.h"
#include "services/verifier/draft_deadline.h"
#include "services/verifier/draft_port.h"

namespace tandem {

// The hand-off to a drafter process through shared memory, in host or device mode as the attachment
// says. Adopts whatever attachment is live when a pass begins; an attachment that ends in the
// middle of a round makes that round one without drafts.
//
// In device mode a round is collected as soon as the drafter has acknowledged it, which says that
// everything before it has finished; the device waits for the drafts.
//
// A round that misses its deadline is released: no drafts for that step, and no more waiting until
// the drafter has finished it. Two releases in a row within 10 s, or a release that lasts 10 s, end
// the attachment.
class IpcDraftPort final : public DraftPort, public DeviceHandoff {
 public:
  struct Options {
    int taps[2] = {-1, -1};
    int max_drafts = 0;
    int vocab = 0;
    DraftDeadline::Options deadline;
    double release_window_seconds = 10;
    uint64_t first_step = 1;  // of an attachment
  };
  // Attachment and metrics must outlive the port. `device`: null where no attachment can be in
  // device mode.
  IpcDraftPort(const Options& options, DraftAttachment* attachment, VerifierMetrics* metrics,
               std::unique_ptr<DeviceRounds> device = nullptr);
  ~IpcDraftPort() override;

  bool Attached() override;
  const int* taps() const override { return options_.taps; }
  int max_drafts() const override { return options_.max_drafts; }
  float* FeatureRows() override;
  void Publish(absl::Span<const PublishedLane> lanes) override;
  DraftOutcome Collect(absl::Span<Drafts> results) override;
  DeviceHandoff* device() override { return device_ == nullptr ? nullptr : this; }

  // In device mode.
  bool live() override { return on_device_; }
  void Plan(absl::Span<const PublishedLane> lanes) override;
  void Take(absl::Span<const WantedDrafts> lanes, View<int32_t> tokens,
            View<int32_t> row_tokens) override;
  void Publish(View<const int32_t> emitted, View<const int32_t> tokens) override;
  absl::Span<const int32_t> Finish() override;

 private:
  void Adopt();
  bool Live() const;
  ipc::WaitResult Wait();
  void Released(uint64_t awaited);
  bool WriteRound(absl::Span<const PublishedLane> lanes);
  void Send();
  void Expect();
  void Measure(const ipc::DraftRecord& echo, ipc::Clock::time_point waited_since);
  DraftOutcome Take(absl::Span<Drafts> results);

  Options options_;
  DraftAttachment* attachment_;
  VerifierMetrics* metrics_;
  DraftDeadline deadline_;
  const std::unique_ptr<DeviceRounds> device_;
  // The attachment in use; its epoch is 0 where there is none.
  ipc::VerifierChannel channel_;
  bool held_ = false;
  bool on_device_ = false;
  uint64_t step_ = 0;  // last published round
  bool outstanding_ = false;
  int wanted_ = 0;      // drafts wanted in the outstanding round
  int rows_ = 0;        // of it
  bool alone_ = false;  // the drafter had nothing else to do when it went out
  ipc::Clock::time_point published_at_;
  std::vector<ipc::LaneRecord> lanes_;    // as published
  std::vector<ipc::DraftRecord> drafts_;  // private copy
  uint64_t released_step_ = 0;  // `drafted` is to reach it before anything is waited for again
  uint64_t expected_step_ = 0;  // that the device waits for; 0: none
  double expected_within_ = 0;  // seconds until that wait is released
  std::vector<int32_t> wanted_of_take_;  // by lane
  std::vector<int32_t> taken_;           // as wanted_of_take_
  int releases_in_a_row_ = 0;
  ipc::Clock::time_point first_release_;
};

}  // namespace tandem
