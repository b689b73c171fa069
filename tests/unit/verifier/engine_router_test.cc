// Sessions of a router live as long as its streams, and a little longer.
#include <gtest/gtest.h>

#include "tests/unit/verifier/engine_harness.h"

namespace tandem {
namespace {

class EngineRouters : public testing::Test {
 protected:
  EngineRouters() : harness_(EngineHarness::Options(2, 0)) {}

  void Open(const std::string& id, const std::string& router_id) {
    ASSERT_TRUE(harness_.Open(id, absl::Seconds(600), router_id).ok());
  }
  bool IsOpen(const std::string& id) { return harness_.Describe(id).ok(); }
  void Pass(absl::Duration time) {
    harness_.clock().Advance(time);
    harness_.Turn();
  }
  GenerationInput Turn(const std::string& id) {
    GenerationInput input = GoldenInput(0, 30);
    input.session_id = id;
    return input;
  }

  EngineHarness harness_;
};

TEST_F(EngineRouters, ADeadRoutersSessionsAreClosedAndOthersStay) {
  harness_.engine().RouterJoined("a");
  harness_.engine().RouterJoined("b");
  Open("of-a", "a");
  Open("of-b", "b");
  Open("of-nobody", "");
  harness_.Run(Turn("of-a"));
  EXPECT_EQ(harness_.engine().load().slots_used, 1);
  harness_.engine().RouterLeft("a");
  Pass(absl::ZeroDuration());
  Pass(absl::Seconds(9));
  EXPECT_TRUE(IsOpen("of-a"));
  Pass(absl::Seconds(1));
  EXPECT_FALSE(IsOpen("of-a"));
  EXPECT_EQ(harness_.engine().load().slots_used, 0);
  EXPECT_EQ(harness_.metrics().SessionOperations("evict", "OK").Value(), 1);
  Pass(absl::Seconds(300));
  EXPECT_TRUE(IsOpen("of-b"));
  EXPECT_TRUE(IsOpen("of-nobody"));
}

TEST_F(EngineRouters, AShortBreakLosesNothing) {
  harness_.engine().RouterJoined("a");
  Open("s", "a");
  for (int i = 0; i < 3; ++i) {
    harness_.engine().RouterLeft("a");
    Pass(absl::ZeroDuration());
    Pass(absl::Seconds(9));
    harness_.engine().RouterJoined("a");
    Pass(absl::Seconds(100));
    EXPECT_TRUE(IsOpen("s")) << i;
  }
}

TEST_F(EngineRouters, OneOfTwoStreamsIsEnough) {
  harness_.engine().RouterJoined("a");
  harness_.engine().RouterJoined("a");
  Open("s", "a");
  harness_.engine().RouterLeft("a");
  Pass(absl::Seconds(100));
  EXPECT_TRUE(IsOpen("s"));
  harness_.engine().RouterLeft("a");
  Pass(absl::ZeroDuration());
  Pass(absl::Seconds(10));
  EXPECT_FALSE(IsOpen("s"));
}

TEST_F(EngineRouters, ARouterThatNeverHadAStreamHasTheGraceToo) {
  Open("s", "a");
  Pass(absl::Seconds(9));
  EXPECT_TRUE(IsOpen("s"));
  Pass(absl::Seconds(1));
  EXPECT_FALSE(IsOpen("s"));
  Open("s", "a");
  EXPECT_TRUE(IsOpen("s"));
}

TEST_F(EngineRouters, ARunningRequestEndsBeforeItsSessionDoes) {
  harness_.engine().RouterJoined("a");
  Open("s", "a");
  const auto sink = harness_.Submit(Turn("s"));
  harness_.Turns(3);
  harness_.engine().RouterLeft("a");
  Pass(absl::ZeroDuration());
  Pass(absl::Seconds(60));
  EXPECT_TRUE(IsOpen("s"));
  harness_.engine().Drop(harness_.last_handle());  // what the break of the call's own stream does
  harness_.Turns(2);
  EXPECT_TRUE(sink->failed());
  EXPECT_FALSE(IsOpen("s"));
  EXPECT_EQ(harness_.engine().load().slots_used, 0);
}

}  // namespace
}  // namespace tandem
