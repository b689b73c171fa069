#include "tests/unit/verifier/scripted_port.h"

#include <algorithm>

#include "common/base/check.h"
#include "tests/unit/verifier/demo_model.h"

namespace tandem {

ScriptedDraftPort::ScriptedDraftPort(int max_rows, std::vector<std::vector<int32_t>> texts,
                                     Script script)
    : texts_(std::move(texts)), script_(std::move(script)) {
  const DemoModel& demo = Demo();
  const size_t floats = 3 * static_cast<size_t>(demo.weights->config().width) * max_rows;
  rows_ = static_cast<float*>(demo.backend->Allocate(floats * sizeof(float)));
}

const std::vector<int32_t>* ScriptedDraftPort::TextOf(const PublishedLane& lane) {
  const auto follows = [&lane](const std::vector<int32_t>& text) {
    for (int i = 0; i < lane.count; ++i) {
      const size_t at = static_cast<size_t>(lane.position + 1 + i);
      if (at >= text.size() || text[at] != lane.next_tokens[i]) return false;
    }
    return true;
  };
  const std::vector<int32_t>*& known = followed_[{lane.slot, lane.generation}];
  if (known != nullptr && follows(*known)) return known;
  const auto it = std::find_if(texts_.begin(), texts_.end(), follows);
  known = it == texts_.end() ? nullptr : &*it;
  return known;
}

void ScriptedDraftPort::Publish(absl::Span<const PublishedLane> lanes) {
  CHECK(answers_.empty()) << "a round is outstanding";
  ++published_;
  for (const PublishedLane& lane : lanes) {
    CHECK_GE(lane.count, 1);
    records_.push_back({.slot = lane.slot,
                        .wanted = lane.wanted,
                        .position = lane.position,
                        .next_tokens = {lane.next_tokens, lane.next_tokens + lane.count}});
    Drafts drafts;
    const std::vector<int32_t>* const text = TextOf(lane);
    if (lane.wanted > 0) {
      const std::vector<int32_t> said = script_({.round = asked_++,
                                                 .text = text,
                                                 .position = lane.position + lane.count + 1,
                                                 .wanted = lane.wanted});
      drafts.count = std::min<int>(lane.wanted, static_cast<int>(said.size()));
      std::copy_n(said.begin(), drafts.count, drafts.tokens);
    }
    answers_.push_back(drafts);
  }
}

DraftOutcome ScriptedDraftPort::Collect(absl::Span<Drafts> results) {
  CHECK_EQ(results.size(), answers_.size());
  const DraftOutcome said = attached(published_) ? outcome(published_) : DraftOutcome::kNoDrafter;
  if (said == DraftOutcome::kDrafted) std::copy(answers_.begin(), answers_.end(), results.begin());
  answers_.clear();
  return said;
}

std::vector<int32_t> RightDrafts(const ScriptedDraftPort::Question& question) {
  return RightFor(kMaxDrafts)(question);
}

std::vector<int32_t> WrongDrafts(const ScriptedDraftPort::Question& question) {
  return RightFor(0)(question);
}

ScriptedDraftPort::Script RightFor(int count) {
  return [count](const ScriptedDraftPort::Question& question) {
    std::vector<int32_t> drafts;
    for (int i = 0; i < question.wanted; ++i) {
      const size_t at = static_cast<size_t>(question.position + i);
      const bool known = question.text != nullptr && at < question.text->size();
      const int32_t right = known ? (*question.text)[at] : 100;
      drafts.push_back(i < count ? right : (right + 1) % 4096);
    }
    return drafts;
  };
}

}  // namespace tandem
