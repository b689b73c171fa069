// The tests of tests/drafter, linked into this program, run on the CUDA backend; here is what only
// it can break.

#include "gtest/gtest.h"
#include "tests/drafter/demo.h"

namespace tandem {
namespace {

// Rounds of one, two and three certain positions after the prompt, fed twice.
TEST(DrafterCudaTest, ReplayedRoundsDraftWhatLaunchedOnesDo) {
  Demo& demo = Demo::Get();
  std::vector<int32_t> ids = demo.golden()["cases"][2]["ids"];
  const int prompt = static_cast<int>(ids.size()) / 2;
  BaseSequence base;
  base.Pass(ids);
  const auto drafts = [&] {
    const std::unique_ptr<Mtp> mtp = demo.MakeMtp(1);
    std::vector<std::vector<int32_t>> all = {
        DraftOne(*mtp, LaneOf(ids, base.features, 0, prompt, 3))};
    int fed = prompt;
    for (int round = 0; fed + 3 < static_cast<int>(ids.size()); ++round) {
      const int end = fed + 1 + round % 3;
      all.push_back(DraftOne(*mtp, LaneOf(ids, base.features, fed, end, 3)));
      fed = end;
    }
    return all;
  };
  demo.backend().remember = true;
  const std::vector<std::vector<int32_t>> launched = drafts();
  demo.backend().remember = false;
  const GraphCounts before = demo.backend().graph_counts();
  const std::vector<std::vector<int32_t>> replayed = drafts();
  const GraphCounts after = demo.backend().graph_counts();
  demo.backend().remember = true;
  EXPECT_EQ(replayed, launched);
  EXPECT_GT(after.replayed, before.replayed);
}

}  // namespace
}  // namespace tandem
