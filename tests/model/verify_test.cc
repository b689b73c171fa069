// Verifying drafts leaves what plain decoding leaves, bit for bit, whatever the drafts are worth.

#include "gmock/gmock.h"
#include "kernels/lanes.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

constexpr int kSteps = 40;

// A prompt, and what plain greedy decoding makes of it.
class VerifyTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new DemoModel();
    const Slot slot = model_->Acquire();
    tokens_.push_back(Argmax(model_->Prefill(slot, Tokens(Golden()["cases"][0]["ids"]), 64)));
    start_ = model_->state().Save(slot);
    for (int i = 0; i < kSteps; ++i) {
      logits_.push_back(model_->Run({{.slot = &slot, .certain = {tokens_.back()}}}).front());
      states_.push_back(model_->state().Save(slot));
      tokens_.push_back(Argmax(logits_.back()));
    }
  }

  Slot Start() {
    Slot slot = model_->Acquire();
    EXPECT_TRUE(model_->state().Load(slot, start_).ok());
    return slot;
  }

  static int32_t Wrong(int32_t token) { return (token + 1) % model_->model().config().vocab; }

  // Drafts after step `step` of which the first `right` are right and the next one is not; the
  // rest are right or wrong.
  static std::vector<int32_t> Drafts(int step, int count, int right, bool rest_right) {
    std::vector<int32_t> drafts;
    for (int i = 0; i < count; ++i) {
      const int32_t token = tokens_[static_cast<size_t>(step + 1 + i)];
      const bool keep = i < right || (i > right && rest_right);
      drafts.push_back(keep ? token : Wrong(token));
    }
    return drafts;
  }

  // Verifies drafts after step `step`, of which `right` are right, and accepts these.
  void Verify(const Slot& slot, int step, const std::vector<int32_t>& drafts, int right) {
    const std::vector<std::vector<float>> rows = model_->Run(
        {{.slot = &slot, .certain = {tokens_[static_cast<size_t>(step)]}, .drafts = drafts}});
    ASSERT_EQ(rows.size(), 1 + drafts.size());
    for (int i = 0; i <= right; ++i) {
      EXPECT_TRUE(SameBits(rows[static_cast<size_t>(i)], logits_[static_cast<size_t>(step + i)]))
          << "row " << i << " after step " << step;
    }
    model_->state().SetAccepted(slot, right);
  }

  static DemoModel* model_;
  static SavedState start_;                        // after the prompt
  static std::vector<int32_t> tokens_;             // [kSteps + 1] fed by step i
  static std::vector<std::vector<float>> logits_;  // [kSteps] after step i
  static std::vector<SavedState> states_;          // [kSteps] after step i
};

DemoModel* VerifyTest::model_ = nullptr;
SavedState VerifyTest::start_;
std::vector<int32_t> VerifyTest::tokens_;
std::vector<std::vector<float>> VerifyTest::logits_;
std::vector<SavedState> VerifyTest::states_;

TEST_F(VerifyTest, EveryAcceptedCountOfEveryDraftCount) {
  for (int drafts = 0; drafts <= kMaxDrafts; ++drafts) {
    for (int right = 0; right <= drafts; ++right) {
      for (const bool rest_right : {false, true}) {
        SCOPED_TRACE(testing::Message() << right << " of " << drafts << " right, then "
                                        << (rest_right ? "right" : "wrong"));
        const Slot settled = Start();
        Verify(settled, 0, Drafts(0, drafts, right, rest_right), right);
        EXPECT_EQ(model_->state().Save(settled), states_[static_cast<size_t>(right)]);
        const Slot running = Start();
        Verify(running, 0, Drafts(0, drafts, right, rest_right), right);
        Verify(running, right + 1, {}, 0);
        EXPECT_EQ(model_->state().Save(running), states_[static_cast<size_t>(right + 1)]);
      }
    }
  }
}

TEST_F(VerifyTest, StepsWithAndWithoutDraftsAlternate) {
  const Slot slot = Start();
  int step = 0;
  for (int round = 0; step + 4 < kSteps; ++round) {
    SCOPED_TRACE(round);
    const int drafts = round % 2 == 0 ? 3 : 0;
    const int right = drafts == 0 ? 0 : round / 2 % 4;
    Verify(slot, step, Drafts(step, drafts, right, true), right);
    step += 1 + right;
  }
  EXPECT_EQ(model_->state().Save(slot), states_[static_cast<size_t>(step - 1)]);
}

TEST_F(VerifyTest, DraftCountsChangeWhileOtherLanesComeAndGo) {
  const Slot slot = Start();
  int step = 0;
  for (const int drafts : {8, 1, 0, 2, 5, 3, 0, 8}) {
    SCOPED_TRACE(step);
    const int right = drafts / 2;
    const Slot other = Start();
    const std::vector<int32_t> guesses = Drafts(step, drafts, right, false);
    const std::vector<std::vector<float>> rows = model_->Run(
        {{.slot = &other, .certain = {tokens_[0], tokens_[1]}, .drafts = {Wrong(tokens_[2])}},
         {.slot = &slot, .certain = {tokens_[static_cast<size_t>(step)]}, .drafts = guesses}});
    for (int i = 0; i <= right; ++i) {
      EXPECT_TRUE(
          SameBits(rows[static_cast<size_t>(2 + i)], logits_[static_cast<size_t>(step + i)]));
    }
    model_->state().SetAccepted(slot, right);
    step += 1 + right;
  }
  EXPECT_EQ(model_->state().Save(slot), states_[static_cast<size_t>(step - 1)]);
}

}  // namespace
}  // namespace tandem
