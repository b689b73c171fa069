#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/drafter/drafter.h"
#include "common/drafter/mtp/mtp_file.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

struct MtpWeights;

// Entries of draft_vocab that the draft head ranks; all of them when the sidecar lists fewer.
inline constexpr int kMtpDraftVocab = 16384;

// The MTP sidecar: one transformer block over the base model's features, run up to kMaxDrafts times
// in a chain. Per slot it keeps a ring of window + kMaxDrafts keys and values and one channel-mix
// shift. Keys of certain positions come from the base model's features; those that a chain writes
// are tentative and are overwritten when their positions become certain, so a rejected draft costs
// nothing. A slot whose lane does not continue the last round, or has a new generation, starts with
// an empty ring and a zero shift at the lane's first position.
// Drafts depend on the positions fed since that start, never on how they were cut into rounds nor
// on the other lanes.
class Mtp final : public Drafter {
 public:
  struct Options {
    int vocab = 0;                     // V of the base model
    const float* embedding = nullptr;  // [V, C] LN0(emb) of the base model, in backend memory
    Matrix head;                       // [V, C] head of the base model, in backend memory
    int slots = 0;                     // S
    int max_lanes = 0;                 // lanes computed together; a round may bring more
    int max_rows = 0;  // certain positions computed together, raised to window + 1 at least
    WeightFormat weights = WeightFormat::kBf16;  // what the sidecar's matrices are rounded to
  };

  // Copies the weights into `backend`, which must outlive the drafter, as must embedding and head;
  // `file` is not needed afterwards. RESOURCE_EXHAUSTED, with the sizes, when memory is short.
  static absl::StatusOr<std::unique_ptr<Mtp>> Create(Backend* backend, const MtpFile& file,
                                                     const Options& options);
  // The same with weights that are in `backend` already.
  static absl::StatusOr<std::unique_ptr<Mtp>> Create(Backend* backend, MtpWeights weights,
                                                     const Options& options);
  ~Mtp() override;

  // kMaxDrafts, or 1 for a sidecar without the depth adapter.
  int max_drafts() const override;
  int slots() const override;

  // A lane is refused (count 0, its slot unchanged) when its slot, count, position or a token is
  // out of range. Drafts come back in host memory: the call waits for the backend.
  void Draft(absl::Span<const DraftLane> lanes, absl::Span<Drafts> results) override;
  // Refused besides: drafts after more than one certain position, whose keys might overwrite some
  // that are still looked at.
  void Enqueue(const DeviceRound& round, absl::Span<const DeviceDraftLane> lanes) override;
  void Finish(absl::Span<int32_t> fed) override;

 private:
  struct Impl;
  explicit Mtp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
