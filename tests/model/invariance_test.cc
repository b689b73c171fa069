// A token's results depend neither on who shares its pass nor on how its sequence is cut.

#include "gmock/gmock.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

DemoModel& Model() {
  static DemoModel* const model = new DemoModel();
  return *model;
}

// The longest golden prompt.
std::vector<int32_t> Text() {
  std::vector<int32_t> longest;
  for (const auto& item : Golden()["cases"]) {
    const std::vector<int32_t> ids = Tokens(item["ids"]);
    if (ids.size() > longest.size()) longest = ids;
  }
  return longest;
}

std::vector<int32_t> Part(const std::vector<int32_t>& text, int first, int count) {
  return {text.begin() + first, text.begin() + first + count};
}

std::vector<float> Features(int first, int rows) {
  const int width = 3 * Model().model().config().width;
  const float* const begin = Model().features() + first * width;
  return {begin, begin + rows * width};
}

TEST(InvarianceTest, LanesDoNotInfluenceEachOther) {
  const std::vector<int32_t> text = Text();
  struct Case {
    int context, certain, drafts;
  };
  // A long prompt, a plain step, two verifications; as many as fit twice into the slots.
  const Case cases[] = {{20, 70, 0}, {11, 1, 8}, {30, 4, 3}};
  std::vector<Slot> alone, together;
  std::vector<DemoModel::Lane> lanes;
  for (const Case& item : cases) {
    for (std::vector<Slot>* slots : {&alone, &together}) {
      slots->push_back(Model().Acquire());
      Model().Prefill(slots->back(), Part(text, 0, item.context), 64);
    }
    lanes.push_back(
        {.certain = Part(text, item.context, item.certain), .drafts = Part(text, 3, item.drafts)});
  }
  for (size_t i = 0; i < lanes.size(); ++i) lanes[i].slot = &together[i];
  const std::vector<std::vector<float>> logits = Model().Run(lanes);
  int rows = 0;
  for (const Case& item : cases) rows += item.certain + item.drafts;
  const std::vector<float> features = Features(0, rows);

  int first_row = 0, first_logit = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    SCOPED_TRACE(i);
    lanes[i].slot = &alone[i];
    const int count = cases[i].certain + cases[i].drafts;
    const std::vector<std::vector<float>> expected = Model().Run({lanes[i]});
    const auto begin = logits.begin() + first_logit;
    ExpectSameRows({begin, begin + static_cast<int>(expected.size())}, expected);
    const size_t width = features.size() / static_cast<size_t>(rows);
    EXPECT_TRUE(SameBits(absl::MakeConstSpan(features).subspan(first_row * width, count * width),
                         Features(0, count)));
    for (const Slot* slot : {&alone[i], &together[i]})
      Model().state().SetAccepted(*slot, cases[i].drafts);
    EXPECT_EQ(Model().state().Save(together[i]), Model().state().Save(alone[i]));
    first_row += count;
    first_logit += static_cast<int>(expected.size());
  }
}

TEST(InvarianceTest, ChunksEqualTheWhole) {
  const std::vector<int32_t> text = Text();
  ASSERT_GT(text.size(), 65u);
  const Slot whole = Model().Acquire();
  const int all = static_cast<int>(text.size());
  const std::vector<std::vector<float>> expected = Model().Feed(whole, text, all);
  const std::vector<float> last = Features(all - 1, 1);
  const SavedState state = Model().state().Save(whole);
  for (const int chunk : {1, 2, 3, 7, 16, 65}) {
    SCOPED_TRACE(chunk);
    const Slot slot = Model().Acquire();
    ExpectSameRows(Model().Feed(slot, text, chunk), expected);
    EXPECT_TRUE(SameBits(Features((all - 1) % chunk, 1), last));
    EXPECT_EQ(Model().state().Save(slot), state);
  }
}

TEST(InvarianceTest, ThreadsChangeNothing) {
  const std::vector<int32_t> text = Part(Text(), 0, 40);
  DemoModel single(1);
  const Slot one = single.Acquire();
  const Slot two = Model().Acquire();
  ExpectSameRows(Model().Feed(two, text, 13), single.Feed(one, text, 13));
  EXPECT_EQ(Model().state().Save(two), single.state().Save(one));
}

}  // namespace
}  // namespace tandem
