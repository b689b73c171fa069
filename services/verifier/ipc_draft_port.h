#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "common/ipc/channel.h"
#include "common/metrics/metrics.h"
#include "services/verifier/draft_attachment.h"
#include "services/verifier/draft_deadline.h"
#include "services/verifier/draft_port.h"

namespace tandem {

// The hand-off to a drafter process through shared host memory. Adopts whatever attachment is live
// when a pass begins; an attachment that ends in the middle of a round makes that round one without
// drafts.
//
// A round that misses its deadline is released: no drafts for that step, and no more waiting until
// the drafter has finished it. Two releases in a row within 10 s, or a release that lasts 10 s, end
// the attachment.
class IpcDraftPort final : public DraftPort {
 public:
  struct Options {
    int taps[2] = {-1, -1};
    int max_drafts = 0;
    int vocab = 0;
    DraftDeadline::Options deadline;
    double release_window_seconds = 10;
  };
  // Both must outlive the port.
  IpcDraftPort(const Options& options, DraftAttachment* attachment, VerifierMetrics* metrics);
  ~IpcDraftPort() override;

  bool Attached() override;
  const int* taps() const override { return options_.taps; }
  int max_drafts() const override { return options_.max_drafts; }
  float* FeatureRows() override;
  void Publish(absl::Span<const PublishedLane> lanes) override;
  DraftOutcome Collect(absl::Span<Drafts> results) override;

 private:
  void Adopt();
  bool Live() const;
  ipc::WaitResult Wait();
  void Released();
  void Measure(const ipc::DraftRecord& echo, ipc::Clock::time_point waited_since);
  DraftOutcome Take(absl::Span<Drafts> results);

  Options options_;
  DraftAttachment* attachment_;
  VerifierMetrics* metrics_;
  DraftDeadline deadline_;
  // The attachment in use; its epoch is 0 where there is none.
  ipc::VerifierChannel channel_;
  bool held_ = false;
  uint64_t step_ = 0;  // last published round
  bool outstanding_ = false;
  int wanted_ = 0;      // drafts wanted in the outstanding round
  bool alone_ = false;  // the drafter had nothing else to do when it went out
  ipc::Clock::time_point published_at_;
  std::vector<ipc::LaneRecord> lanes_;    // as published
  std::vector<ipc::DraftRecord> drafts_;  // private copy
  uint64_t released_step_ = 0;            // not finished by the drafter yet; 0: none
  int releases_in_a_row_ = 0;
  ipc::Clock::time_point first_release_;
};

}  // namespace tandem
