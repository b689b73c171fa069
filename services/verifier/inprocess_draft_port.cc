#include "services/verifier/inprocess_draft_port.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tandem {

std::unique_ptr<InProcessDraftPort> InProcessDraftPort::Create(Backend* backend,
                                                               const Options& options,
                                                               std::unique_ptr<Drafter> drafter) {
  const size_t bytes = 3 * sizeof(float) * static_cast<size_t>(options.width) *
                       static_cast<size_t>(options.max_rows);
  auto* rows = static_cast<float*>(backend->Allocate(bytes));
  if (rows == nullptr) return nullptr;
  return std::unique_ptr<InProcessDraftPort>(
      new InProcessDraftPort(options, std::move(drafter), rows));
}

InProcessDraftPort::InProcessDraftPort(const Options& options, std::unique_ptr<Drafter> drafter,
                                       float* rows)
    : options_(options),
      drafter_(std::move(drafter)),
      rows_(rows),
      next_tokens_(static_cast<size_t>(options.max_rows)) {}

float* InProcessDraftPort::FeatureRows() {
  // A round that nobody collected still has to be fed before its rows are overwritten.
  Draft();
  outstanding_ = false;
  return rows_;
}

void InProcessDraftPort::Publish(absl::Span<const PublishedLane> lanes) {
  lanes_.clear();
  for (const PublishedLane& lane : lanes) {
    CHECK(lane.count >= 1 && lane.first_row >= 0 &&
          lane.first_row + lane.count <= options_.max_rows)
        << "rows " << lane.first_row << " + " << lane.count << " of " << options_.max_rows;
    int32_t* next_tokens = next_tokens_.data() + lane.first_row;
    std::copy_n(lane.next_tokens, lane.count, next_tokens);
    lanes_.push_back({.slot = lane.slot,
                      .generation = lane.generation,
                      .count = lane.count,
                      .wanted = std::min(lane.wanted, max_drafts()),
                      .position = lane.position,
                      .features = rows_ + static_cast<size_t>(lane.first_row) * 3 *
                                              static_cast<size_t>(options_.width),
                      .next_tokens = next_tokens});
  }
  outstanding_ = !lanes_.empty();
  drafted_ = false;
}

void InProcessDraftPort::Draft() {
  if (!outstanding_ || drafted_) return;
  drafts_.assign(lanes_.size(), Drafts{});
  drafter_->Draft(lanes_, absl::MakeSpan(drafts_));
  drafted_ = true;
}

DraftOutcome InProcessDraftPort::Collect(absl::Span<Drafts> results) {
  if (!outstanding_) {
    std::fill(results.begin(), results.end(), Drafts{});
    return DraftOutcome::kNoDrafter;
  }
  CHECK_EQ(results.size(), lanes_.size());
  Draft();
  outstanding_ = false;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    CHECK_LE(drafts_[i].count, lanes_[i].wanted);
    for (int k = 0; k < drafts_[i].count; ++k) {
      CHECK(drafts_[i].tokens[k] >= 0 && drafts_[i].tokens[k] < options_.vocab)
          << "draft " << drafts_[i].tokens[k] << " of a vocabulary of " << options_.vocab;
    }
    results[i] = drafts_[i];
  }
  return DraftOutcome::kDrafted;
}

DraftOutcome NoDraftPort::Collect(absl::Span<Drafts> results) {
  std::fill(results.begin(), results.end(), Drafts{});
  return DraftOutcome::kNoDrafter;
}

}  // namespace tandem
