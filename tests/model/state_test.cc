#include "common/model/state.h"

#include "gmock/gmock.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

class StateTest : public testing::Test {
 protected:
  static DemoModel& Model() {
    static DemoModel* const model = new DemoModel();
    return *model;
  }
  static std::vector<int32_t> Prompt(size_t index) {
    return Tokens(Golden()["cases"][index]["ids"]);
  }
  static std::vector<float> Step(const Slot& slot, int32_t token) {
    return Model().Run({{.slot = &slot, .certain = {token}}}).front();
  }
  // Leaves `accepted` of three drafts waiting in the slot's log.
  static void LeaveDrafts(const Slot& slot, int accepted) {
    Model().Run({{.slot = &slot, .certain = {5}, .drafts = {6, 7, 8}}});
    Model().state().SetAccepted(slot, accepted);
  }
};

TEST_F(StateTest, SettlingEarlyChangesNothing) {
  for (int accepted = 0; accepted <= 3; ++accepted) {
    SCOPED_TRACE(accepted);
    const Slot settled = Model().Acquire();
    const Slot waiting = Model().Acquire();
    for (const Slot* slot : {&settled, &waiting}) {
      Model().Prefill(*slot, Prompt(1), 64);
      LeaveDrafts(*slot, accepted);
    }
    Model().state().Settle(settled);
    Model().state().Settle(settled);
    EXPECT_TRUE(SameBits(Step(settled, 9), Step(waiting, 9)));
    EXPECT_EQ(Model().state().Save(settled), Model().state().Save(waiting));
  }
}

TEST_F(StateTest, ASavedStateGoesOnInAnotherSlot) {
  const Slot first = Model().Acquire();
  Model().Prefill(first, Prompt(2), 64);
  LeaveDrafts(first, 2);
  const SavedState saved = Model().state().Save(first);
  const Slot second = Model().Acquire();
  // What the second slot held before, its log included, is gone after Load.
  Model().Prefill(second, Prompt(3), 64);
  LeaveDrafts(second, 3);
  ASSERT_TRUE(Model().state().Load(second, saved).ok());
  EXPECT_EQ(Model().state().Save(second), saved);
  for (const int32_t token : {9, 10, 11})
    EXPECT_TRUE(SameBits(Step(second, token), Step(first, token)));
  EXPECT_EQ(Model().state().Save(second), Model().state().Save(first));
}

TEST_F(StateTest, LoadRefusesWhatDoesNotFit) {
  const Slot slot = Model().Acquire();
  Model().Prefill(slot, Prompt(4), 64);
  const SavedState saved = Model().state().Save(slot);
  SavedState truncated = saved, longer = saved, other_model = saved;
  truncated.pop_back();
  longer.push_back(0);
  other_model[0] += 1;
  for (const SavedState& wrong : {SavedState{}, truncated, longer, other_model}) {
    EXPECT_EQ(Model().state().Load(slot, wrong).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(Model().state().Save(slot), saved);
  }
}

TEST_F(StateTest, AReusedSlotKeepsNothing) {
  std::vector<std::vector<float>> first_rows;
  SavedState first_state;
  int index = -1;
  uint32_t generation = 0;
  for (const size_t prompt : {5u, 0u, 5u}) {
    const Slot slot = Model().Acquire();
    EXPECT_NE(slot.generation(), generation);
    generation = slot.generation();
    if (index >= 0) {
      EXPECT_EQ(slot.index(), index);
    }
    index = slot.index();
    const std::vector<std::vector<float>> rows = Model().Feed(slot, Prompt(prompt), 50);
    const SavedState state = Model().state().Save(slot);
    if (first_rows.empty()) {
      first_rows = rows;
      first_state = state;
    } else if (prompt == 5) {
      ExpectSameRows(rows, first_rows);
      EXPECT_EQ(state, first_state);
    } else {
      EXPECT_NE(state, first_state);
    }
    LeaveDrafts(slot, 3);
  }
}

TEST_F(StateTest, SlotsRunOutAndComeBack) {
  std::vector<Slot> slots;
  for (int i = 0; i < DemoModel::kSlots; ++i) slots.push_back(Model().Acquire());
  EXPECT_EQ(Model().state().free_slots(), 0);
  EXPECT_EQ(Model().state().Acquire().status().code(), absl::StatusCode::kResourceExhausted);
  slots.pop_back();
  EXPECT_EQ(Model().state().free_slots(), 1);
  EXPECT_TRUE(Model().state().Acquire().ok());
}

}  // namespace
}  // namespace tandem
