#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/gpu/state_op_passes.h"
#include "tests/gpu/state_rig.h"

namespace tandem {

TYPED_TEST_SUITE_P(StateOpCudaTest);

TYPED_TEST_P(StateOpCudaTest, FollowsTheCpuOverConsecutivePasses) {
  using Rig = typename TypeParam::Rig;
  const std::unique_ptr<Backend> host = MakeCpuBackend(0);
  Rig cpu(*host, TypeParam::kWidth, 31), cuda(*this->backend_, TypeParam::kWidth, 31);
  Random random(32);
  std::vector<int> pending(kRigSlots, 0);
  for (int pass = 0; pass < 8; ++pass) {
    SCOPED_TRACE(testing::Message() << "pass " << pass);
    const TestLanes lanes = DrawLanes(random, &pending);
    const std::vector<int> tokens = TokensFrom(random.Int(0, kRigTokens - 1), lanes.rows());
    ExpectRowsNear(cuda.Run(lanes, tokens), cpu.Run(lanes, tokens), cuda);
    const RigState actual = cuda.State(), expected = cpu.State();
    ExpectAllNear(actual.committed, expected.committed);
    ExpectAllNear(actual.log, expected.log);
    if (testing::Test::HasFailure()) return;
  }
}

TYPED_TEST_P(StateOpCudaTest, LanesDoNotDependOnOneAnother) {
  using Rig = typename TypeParam::Rig;
  Rig rig(*this->backend_, TypeParam::kWidth, 41);
  Random random(42);
  std::vector<int> pending(kRigSlots, 0);
  for (int pass = 0; pass < 3; ++pass) {
    const TestLanes lanes = DrawLanes(random, &pending);
    const std::vector<int> tokens = TokensFrom(9 * pass, lanes.rows());
    const RigState before = rig.State();
    const std::vector<float> together = rig.Run(lanes, tokens);
    const RigState after = rig.State();
    for (size_t b = 0; b < lanes.slots.size(); ++b) {
      SCOPED_TRACE(testing::Message() << "pass " << pass << " lane " << b);
      const int first = lanes.offsets[b], rows = lanes.offsets[b + 1] - first;
      const int slot = lanes.slots[b];
      TestLanes alone = NoLanes();
      alone.accepted = lanes.accepted;
      alone.Add(slot, rows - lanes.provisional[b], lanes.provisional[b]);
      rig.SetState(before);
      EXPECT_TRUE(SameBits(rig.Run(alone, {tokens.begin() + first, tokens.begin() + first + rows}),
                           RowsOf(together, first, rows, rig.output_width())));
      const RigState own = rig.State();
      for (int s = 0; s < kRigSlots; ++s) {
        const RigState& expected = s == slot ? after : before;
        EXPECT_TRUE(SameBits(rig.CommittedOf(own, s), rig.CommittedOf(expected, s))) << s;
        EXPECT_TRUE(SameBits(rig.LogOf(own, s), rig.LogOf(expected, s))) << s;
      }
    }
    rig.SetState(after);
  }
}

TYPED_TEST_P(StateOpCudaTest, ChunksDoNotMatter) {
  using Rig = typename TypeParam::Rig;
  Rig rig(*this->backend_, TypeParam::kWidth, 51);
  const int rows = 50;
  const RigState start = rig.State();
  TestLanes whole = NoLanes();
  whole.Add(3, rows, 0);
  const std::vector<float> expected = rig.Run(whole, TokensFrom(0, rows));
  const RigState end = rig.State();
  for (const std::vector<int>& chunks : std::vector<std::vector<int>>{
           std::vector<int>(rows, 1), {16, 17, 1, 15, 1}, {33, 8, 9}, {7, 43}}) {
    rig.SetState(start);
    std::vector<float> actual;
    int first = 0;
    for (const int chunk : chunks) {
      TestLanes part = NoLanes();
      part.Add(3, chunk, 0);
      const std::vector<float> out = rig.Run(part, TokensFrom(first, chunk));
      actual.insert(actual.end(), out.begin(), out.end());
      first += chunk;
    }
    EXPECT_TRUE(SameBits(actual, expected)) << chunks.size() << " chunks";
    EXPECT_TRUE(SameBits(rig.State().committed, end.committed)) << chunks.size() << " chunks";
  }
}

// Whatever number of drafts is kept, the next pass continues as if exactly these tokens had been
// certain, and so does the Replay op. Counters outside the log's depth count as its ends.
TYPED_TEST_P(StateOpCudaTest, ReplayEqualsCertain) {
  const int slot = 2, other = 5;
  using Rig = typename TypeParam::Rig;
  Rig rig(*this->backend_, TypeParam::kWidth, 61);
  const RigState start = rig.State();
  TestLanes verify = NoLanes();
  verify.Add(other, 1, 2);
  verify.Add(slot, 2, kMaxDrafts);
  std::vector<int> tokens = TokensFrom(40, 3);
  const std::vector<int> own = TokensFrom(0, 2 + kMaxDrafts);
  tokens.insert(tokens.end(), own.begin(), own.end());
  rig.Run(verify, tokens);
  const RigState verified = rig.State();
  for (const int accepted : {-1000000, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1000000}) {
    SCOPED_TRACE(accepted);
    const int kept = std::clamp(accepted, 0, kMaxDrafts);
    TestLanes plain = NoLanes(), one = NoLanes();
    plain.Add(slot, 2 + kept, 0);
    one.Add(slot, 1, 0);
    rig.SetState(start);
    rig.Run(plain, TokensFrom(0, 2 + kept));
    const RigState sequential = rig.State();
    const std::vector<float> expected = rig.Run(one, {30});
    const RigState end = rig.State();

    rig.SetState(verified);
    one.accepted[slot] = accepted;
    EXPECT_TRUE(SameBits(rig.Run(one, {30}), expected));
    EXPECT_TRUE(SameBits(rig.CommittedOf(rig.State(), slot), rig.CommittedOf(end, slot)));

    rig.SetState(verified);
    rig.Replay({slot}, one.accepted);
    const RigState replayed = rig.State();
    EXPECT_TRUE(SameBits(rig.CommittedOf(replayed, slot), rig.CommittedOf(sequential, slot)));
    EXPECT_TRUE(SameBits(rig.CommittedOf(replayed, other), rig.CommittedOf(verified, other)));
    EXPECT_TRUE(SameBits(replayed.log, verified.log));
  }
}

REGISTER_TYPED_TEST_SUITE_P(StateOpCudaTest, FollowsTheCpuOverConsecutivePasses,
                            LanesDoNotDependOnOneAnother, ChunksDoNotMatter, ReplayEqualsCertain);

}  // namespace tandem
