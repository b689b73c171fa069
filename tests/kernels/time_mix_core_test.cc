#include "kernels/time_mix_core/time_mix_core.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/time_mix_core_fixture.h"
#include "tests/kernels/time_mix_core_oracle.h"

namespace tandem {
namespace {

TEST(TimeMixCoreTest, RaggedLanesFollowTheFormulas) {
  for (const bool first_layer : {true, false}) {
    SCOPED_TRACE(first_layer ? "first layer" : "later layer");
    TimeMixCoreFixture core(21, first_layer);
    TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
    lanes.Add(2, 35, 0);
    lanes.Add(0, 1, 3);
    lanes.Add(1, 2, 8);
    const CoreInputs in = core.Draw(lanes.rows());
    const std::vector<float> start = core.committed;
    const CoreOutputs out = core.Run(lanes, in);
    for (size_t b = 0; b < lanes.slots.size(); ++b) {
      CoreOracle oracle(core, start.data() + static_cast<size_t>(lanes.slots[b]) * kStateStride);
      for (int row = lanes.offsets[b]; row < lanes.offsets[b + 1]; ++row) {
        SCOPED_TRACE(testing::Message() << "row " << row);
        const std::vector<double> y = oracle.Step(in, row);
        for (size_t c = 0; c < kCoreWidth; ++c) {
          EXPECT_NEAR(out.y[static_cast<size_t>(row) * kCoreWidth + c], y[c], 2e-4) << c;
          if (first_layer) {
            EXPECT_EQ(out.v_first[static_cast<size_t>(row) * kCoreWidth + c],
                      in.v[static_cast<size_t>(row) * kCoreWidth + c]);
          }
        }
        if (row == lanes.offsets[b + 1] - lanes.provisional[b] - 1) {
          oracle.ExpectState(core.committed.data() +
                             static_cast<size_t>(lanes.slots[b]) * kStateStride);
        }
      }
    }
  }
}

// Whatever number of drafts is kept, the next pass continues as if exactly these tokens had been
// certain.
TEST(TimeMixCoreTest, EveryAcceptedCountContinuesLikeSequentialDecoding) {
  TimeMixCoreFixture core(22, false);
  const CoreInputs all = core.Draw(1 + kMaxDrafts);
  const CoreInputs next = core.Draw(1);
  const std::vector<float> start = core.committed;
  for (int drafts = 0; drafts <= kMaxDrafts; ++drafts) {
    for (int accepted = 0; accepted <= drafts; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of " << drafts);
      core.committed = start;
      TestLanes one = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
      one.Add(1, 1, 0);
      std::vector<float> sequential;
      for (int row = 0; row <= accepted; ++row) {
        const CoreOutputs out = core.Run(one, all.Rows(row, 1));
        sequential.insert(sequential.end(), out.y.begin(), out.y.end());
      }
      const std::vector<float> expected = core.Run(one, next).y;
      const std::vector<float> expected_state = core.committed;

      core.committed = start;
      core.log = Poisoned(core.log.size());
      TestLanes verify = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
      verify.Add(1, 1, drafts);
      const CoreOutputs rows = core.Run(verify, all.Rows(0, 1 + drafts));
      EXPECT_TRUE(SameBits(RowsOf(rows.y, 0, 1 + accepted, kCoreWidth), sequential));
      one.accepted[1] = accepted;
      EXPECT_TRUE(SameBits(core.Run(one, next).y, expected));
      EXPECT_TRUE(SameBits(core.committed, expected_state));
    }
  }
}

TEST(TimeMixCoreTest, ReplayAloneGivesTheSequentialState) {
  TimeMixCoreFixture core(23, false);
  const CoreInputs all = core.Draw(1 + kMaxDrafts);
  const std::vector<float> start = core.committed;
  for (int accepted = -1; accepted <= kMaxDrafts + 1; ++accepted) {
    SCOPED_TRACE(accepted);
    const int kept = std::min(std::max(accepted, 0), kMaxDrafts);
    core.committed = start;
    TestLanes plain = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
    plain.Add(1, 1 + kept, 0);
    core.Run(plain, all.Rows(0, 1 + kept));
    const std::vector<float> expected = core.committed;

    core.committed = start;
    TestLanes verify = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
    verify.Add(1, 1, kMaxDrafts);
    core.Run(verify, all);
    core.Replay(1, accepted);
    EXPECT_TRUE(SameBits(core.committed, expected));
  }
}

TEST(TimeMixCoreTest, RowsDoNotDependOnTheOthers) {
  TimeMixCoreFixture core(24, false);
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
  lanes.Add(0, 5, 0);
  lanes.Add(2, 40, 0);
  lanes.Add(1, 1, 4);
  const CoreInputs in = core.Draw(lanes.rows());
  const std::vector<float> start = core.committed;
  const CoreOutputs together = core.Run(lanes, in);
  for (size_t b = 0; b < lanes.slots.size(); ++b) {
    core.committed = start;
    TestLanes alone = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
    const int first = lanes.offsets[b], count = lanes.offsets[b + 1] - first;
    alone.Add(lanes.slots[b], count - lanes.provisional[b], lanes.provisional[b]);
    EXPECT_TRUE(SameBits(core.Run(alone, in.Rows(first, count)).y,
                         RowsOf(together.y, first, count, kCoreWidth)));
  }
}

}  // namespace
}  // namespace tandem
