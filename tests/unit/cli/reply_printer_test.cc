#include "services/cli/reply_printer.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

using testing::HasSubstr;

v1::GenerateResponse Finished(const std::string& usage) {
  v1::GenerateResponse event;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "finished { reason: FINISH_REASON_MAX_TOKENS usage { " + usage + " } }", &event));
  return event;
}

TEST(SummaryTest, SaysTokensStepsAndAcceptance) {
  Reply reply;
  reply.Add(
      Finished("generated_tokens: 60 rounds: 24 drafted_by_depth: [24, 20, 16] "
               "accepted_by_depth: [18, 10, 4]"));
  const std::string text = Summary(reply);
  EXPECT_THAT(text, HasSubstr("60 tokens in 24 steps, 2.50 tokens per step"));
  EXPECT_THAT(text, HasSubstr("accepted 75% 50% 25% (depth 1 2 3)"));
  EXPECT_THAT(text, HasSubstr("ended by MAX_TOKENS"));
}

TEST(SummaryTest, SaysWhenThereWereNoDrafts) {
  Reply reply;
  reply.Add(Finished("generated_tokens: 3 rounds: 3"));
  EXPECT_THAT(Summary(reply), HasSubstr("1.00 tokens per step"));
  EXPECT_THAT(Summary(reply), HasSubstr("no drafts"));
}

}  // namespace
}  // namespace tandem::cli
