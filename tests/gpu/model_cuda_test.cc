// The tests of tests/model, linked into this program, run on the CUDA backend; here is what only it
// can break.

#include "gtest/gtest.h"
#include "kernels/lanes.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

// A prompt, then steps without and with drafts: the rows of every pass, in order.
std::vector<std::vector<float>> Generate(DemoModel& model, int rounds) {
  const Slot slot = model.Acquire();
  int32_t next = Argmax(model.Prefill(slot, Tokens(Golden()["cases"][1]["ids"]), 64));
  std::vector<std::vector<float>> all;
  for (int round = 0; round < rounds; ++round) {
    for (const int drafts : {0, 3, kMaxDrafts}) {
      const std::vector<int32_t> guesses(static_cast<size_t>(drafts), 17);
      std::vector<std::vector<float>> rows =
          model.Run({{.slot = &slot, .certain = {next}, .drafts = guesses}});
      next = Argmax(rows.front());
      for (std::vector<float>& row : rows) all.push_back(std::move(row));
    }
  }
  return all;
}

// The first pass of each size runs as it is, the later ones are replayed.
TEST(ModelCudaTest, StepsAreRecordedOncePerSize) {
  DemoModel model;
  const GraphCounts before = model.backend().graph_counts();
  Generate(model, 5);
  const GraphCounts after = model.backend().graph_counts();
  EXPECT_EQ(after.recorded - before.recorded, 3);
  EXPECT_EQ(after.replayed - before.replayed, 5 * 3 - 3);
}

TEST(ModelCudaTest, ReplayedPassesEqualFirstOnes) {
  DemoModel model;
  const std::vector<std::vector<float>> first = Generate(model, 1);
  ExpectSameRows(Generate(model, 1), first);
}

TEST(ModelCudaTest, TwoBackendsAgree) {
  DemoModel one, two;
  ExpectSameRows(Generate(two, 2), Generate(one, 2));
}

}  // namespace
}  // namespace tandem
