#include "services/verifier/inprocess_draft_port.h"

#include <gtest/gtest.h>

#include "tests/unit/drafter/fake_drafter.h"

namespace tandem {
namespace {

constexpr int kSlots = 4;
constexpr int kWidth = 8;
constexpr int kRows = 16;
constexpr int kVocab = 500;

class InProcessDraftPortTest : public ::testing::Test {
 protected:
  InProcessDraftPortTest() : backend_(MakeCpuBackend(1)) {
    auto drafter = std::make_unique<FakeDrafter>(kSlots, kWidth, kVocab);
    drafter_ = drafter.get();
    port_ = InProcessDraftPort::Create(
        backend_.get(), {.taps = {2, 5}, .width = kWidth, .max_rows = kRows, .vocab = kVocab},
        std::move(drafter));
  }
  // Publishes one lane of two positions in rows 3 and 4.
  void Publish(int slot, int64_t position, int wanted) {
    float* rows = port_->FeatureRows();
    for (int i = 0; i < 2; ++i) rows[(3 + i) * 3 * kWidth] = FakeFeature(slot, position + i);
    const int32_t next_tokens[] = {20, 21};
    const PublishedLane lane = {.slot = slot,
                                .generation = 1,
                                .first_row = 3,
                                .count = 2,
                                .wanted = wanted,
                                .position = position,
                                .next_tokens = next_tokens};
    port_->Publish({&lane, 1});
  }
  std::unique_ptr<Backend> backend_;
  FakeDrafter* drafter_;
  std::unique_ptr<InProcessDraftPort> port_;
};

TEST_F(InProcessDraftPortTest, DraftsWhatWasPublished) {
  EXPECT_TRUE(port_->Attached());
  EXPECT_EQ(port_->taps()[1], 5);
  Publish(1, 10, 3);
  EXPECT_TRUE(drafter_->fed.empty());  // tokens go out first
  Drafts drafts;
  EXPECT_EQ(port_->Collect({&drafts, 1}), DraftOutcome::kDrafted);
  ASSERT_EQ(drafts.count, 3);
  for (int k = 0; k < 3; ++k) EXPECT_EQ(drafts.tokens[k], FakeDraft(21, 11, k, kVocab));
}

TEST_F(InProcessDraftPortTest, CollectWithoutARoundIsEmpty) {
  Drafts drafts = {.count = 5};
  EXPECT_EQ(port_->Collect({&drafts, 1}), DraftOutcome::kNoDrafter);
  EXPECT_EQ(drafts.count, 0);
  port_->Publish({});
  EXPECT_EQ(port_->Collect({}), DraftOutcome::kNoDrafter);
}

TEST_F(InProcessDraftPortTest, RoundThatNobodyCollectsIsFedAllTheSame) {
  Publish(1, 10, 3);
  Publish(1, 12, 3);
  Drafts drafts;
  EXPECT_EQ(port_->Collect({&drafts, 1}), DraftOutcome::kDrafted);
  ASSERT_EQ(drafter_->fed.size(), 2u);
  EXPECT_EQ(drafter_->fed[0].position, 10);
  EXPECT_EQ(drafter_->fed[1].position, 12);
}

TEST(NoDraftPortTest, NeverDrafts) {
  NoDraftPort port;
  EXPECT_FALSE(port.Attached());
  EXPECT_EQ(port.FeatureRows(), nullptr);
  Drafts drafts = {.count = 2};
  EXPECT_EQ(port.Collect({&drafts, 1}), DraftOutcome::kNoDrafter);
  EXPECT_EQ(drafts.count, 0);
}

}  // namespace
}  // namespace tandem
