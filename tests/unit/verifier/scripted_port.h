#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "services/verifier/draft_port.h"

namespace tandem {

// A drafter that says what a test wants, and remembers what it was told.
class ScriptedDraftPort final : public DraftPort {
 public:
  // What the drafter knows when it drafts: `round` counts the lane rounds that wanted drafts, from
  // 0; `text` is the known text that the lane follows, or null; the first draft stands for
  // text[position].
  struct Question {
    int round = 0;
    const std::vector<int32_t>* text = nullptr;
    int64_t position = 0;
    int wanted = 0;
  };
  using Script = std::function<std::vector<int32_t>(const Question&)>;

  // `texts`: whole sequences (prompt and reply) that lanes are recognised by.
  ScriptedDraftPort(int max_rows, std::vector<std::vector<int32_t>> texts, Script script);

  bool Attached() override { return attached(published_); }
  const int* taps() const override { return taps_; }
  int max_drafts() const override { return kMaxDrafts; }
  float* FeatureRows() override { return rows_; }
  void Publish(absl::Span<const PublishedLane> lanes) override;
  DraftOutcome Collect(absl::Span<Drafts> results) override;

  // By the number of rounds published so far.
  std::function<bool(int)> attached = [](int) { return true; };
  std::function<DraftOutcome(int)> outcome = [](int) { return DraftOutcome::kDrafted; };

  // A published lane without its pointers.
  struct Record {
    int32_t slot = 0;
    int wanted = 0;
    int64_t position = 0;
    std::vector<int32_t> next_tokens;
  };
  const std::vector<Record>& records() const { return records_; }

 private:
  const std::vector<int32_t>* TextOf(const PublishedLane& lane);

  const int taps_[2] = {2, 5};
  float* rows_;
  const std::vector<std::vector<int32_t>> texts_;
  const Script script_;
  int published_ = 0;
  int asked_ = 0;
  std::vector<Drafts> answers_;
  std::map<std::pair<int32_t, uint32_t>, const std::vector<int32_t>*> followed_;
  std::vector<Record> records_;
};

// Scripts. Right: the text itself. Wrong: never a token of the text. RightFor: the first `count`
// drafts right, the rest wrong.
std::vector<int32_t> RightDrafts(const ScriptedDraftPort::Question& question);
std::vector<int32_t> WrongDrafts(const ScriptedDraftPort::Question& question);
ScriptedDraftPort::Script RightFor(int count);

}  // namespace tandem
