#include "services/verifier/record_passes.h"

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "common/model/weights.h"
#include "common/model/weights_source.h"
#include "gmock/gmock.h"
#include "tests/forwarding_backend.h"

namespace tandem {
namespace {

// Says that it records, and remembers the keys.
class KeyBackend final : public ForwardingBackend {
 public:
  KeyBackend() : ForwardingBackend(MakeCpuBackend(1)) {}
  bool records() const override { return true; }
  void RunRecorded(const GraphKey& key, const std::function<void()>& enqueue) override {
    keys.insert(key);
    enqueue();
  }

  std::set<GraphKey> keys;
};

class RecordPassesTest : public testing::Test {
 protected:
  static constexpr int kSlots = 6;

  void SetUp() override {
    auto source = WeightsSource::Open("deploy/demo-model");
    ASSERT_TRUE(source.ok()) << source.status();
    auto weights = ModelWeights::Load(&backend_, **source);
    ASSERT_TRUE(weights.ok()) << weights.status();
    weights_ = *std::move(weights);
    model_ = std::make_unique<Rwkv7>(weights_.get());
    state_ = *RecurrentState::Create(&backend_, weights_->config(), kSlots);
    step_ = *Step::Create(&backend_, model_.get(), state_.get(),
                          {.max_lanes = kSlots, .max_rows = kSlots * (kMaxDrafts + 1)});
  }

  RecordedPasses Record(const DraftSchedule& schedule) {
    return RecordPasses(backend_, schedule, {.taps = {2, 5}}, *state_, *step_);
  }
  // A pass of one certain token and `drafts[i]` drafts per lane.
  void Run(const std::vector<int>& drafts, float* features) {
    const std::vector<int32_t> tokens(kMaxDrafts + 1);
    const Sampling sampling;
    std::vector<Slot> slots;
    std::vector<StepLane> lanes;
    for (size_t i = 0; i < drafts.size(); ++i) slots.push_back(*state_->Acquire());
    for (size_t i = 0; i < drafts.size(); ++i) {
      lanes.push_back({.slot = &slots[i],
                       .certain = absl::MakeConstSpan(tokens).first(1),
                       .drafts = absl::MakeConstSpan(tokens).first(drafts[i]),
                       .choose = true,
                       .sampling = &sampling});
    }
    step_->Run(lanes, {.taps = {2, 5}, .rows = features});
  }

  KeyBackend backend_;
  std::unique_ptr<ModelWeights> weights_;
  std::unique_ptr<Rwkv7> model_;
  std::unique_ptr<RecurrentState> state_;
  std::unique_ptr<Step> step_;
};

TEST_F(RecordPassesTest, LaterPassesAreAmongTheRecorded) {
  const RecordedPasses recorded = Record(*DraftSchedule::Parse("4:3,0:1"));
  // Up to four lanes B have 3 B + 1 counts of drafts, five and six have two.
  EXPECT_EQ(recorded.count, 4 + 7 + 10 + 13 + 2 + 2);
  EXPECT_TRUE(recorded.complete);
  EXPECT_EQ(backend_.keys.size(), static_cast<size_t>(recorded.count));
  EXPECT_EQ(state_->free_slots(), kSlots);

  std::vector<float> features(size_t{kSlots} * 4 * 3 * weights_->config().width);
  for (const std::vector<int>& drafts : std::vector<std::vector<int>>{
           {0}, {3}, {2}, {3, 3, 3, 3}, {0, 3, 1}, {1, 1, 1, 1, 1}, {0, 0, 0, 0, 0, 0}}) {
    Run(drafts, nullptr);
    Run(drafts, features.data());
  }
  EXPECT_EQ(backend_.keys.size(), static_cast<size_t>(recorded.count));
  Run({3, 3, 3, 3, 3}, nullptr);
  EXPECT_EQ(backend_.keys.size(), static_cast<size_t>(recorded.count) + 1);
}

TEST_F(RecordPassesTest, WithoutDraftsOnePassForEveryNumberOfLanes) {
  EXPECT_EQ(Record(DraftSchedule()).count, kSlots);
}

}  // namespace
}  // namespace tandem
