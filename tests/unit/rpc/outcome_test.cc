#include "common/rpc/outcome.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(OutcomeTest, FinishReasonsHaveShortNames) {
  EXPECT_EQ(FinishReasonName(v1::FINISH_REASON_STOP_TOKEN), "STOP_TOKEN");
  EXPECT_EQ(FinishReasonName(v1::FINISH_REASON_STOP_TEXT), "STOP_TEXT");
  EXPECT_EQ(FinishReasonName(v1::FINISH_REASON_MAX_TOKENS), "MAX_TOKENS");
}

}  // namespace
}  // namespace tandem
