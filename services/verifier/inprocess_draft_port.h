#pragma once

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/drafter/drafter.h"
#include "kernels/backend.h"
#include "services/verifier/draft_port.h"

namespace tandem {

// A drafter in the verifier's own process. It runs on the engine thread, inside Collect.
class InProcessDraftPort final : public DraftPort {
 public:
  struct Options {
    int taps[2] = {-1, -1};
    int width = 0;     // C
    int max_rows = 0;  // of a pass
    int vocab = 0;
  };
  // Null where the feature rows do not fit into memory. `backend` must outlive the port.
  static std::unique_ptr<InProcessDraftPort> Create(Backend* backend, const Options& options,
                                                    std::unique_ptr<Drafter> drafter);

  bool Attached() override { return true; }
  const int* taps() const override { return options_.taps; }
  int max_drafts() const override { return drafter_->max_drafts(); }
  float* FeatureRows() override;
  void Publish(absl::Span<const PublishedLane> lanes) override;
  DraftOutcome Collect(absl::Span<Drafts> results) override;

 private:
  InProcessDraftPort(const Options& options, std::unique_ptr<Drafter> drafter, float* rows);
  void Draft();

  Options options_;
  std::unique_ptr<Drafter> drafter_;
  float* rows_;  // [max_rows, 3C], backend memory
  bool outstanding_ = false;
  bool drafted_ = false;
  std::vector<DraftLane> lanes_;
  std::vector<int32_t> next_tokens_;  // [max_rows], by row
  std::vector<Drafts> drafts_;
};

// No drafter at all.
class NoDraftPort final : public DraftPort {
 public:
  bool Attached() override { return false; }
  const int* taps() const override { return taps_; }
  int max_drafts() const override { return 0; }
  float* FeatureRows() override { return nullptr; }
  void Publish(absl::Span<const PublishedLane>) override {}
  DraftOutcome Collect(absl::Span<Drafts> results) override;

 private:
  int taps_[2] = {-1, -1};
};

}  // namespace tandem
