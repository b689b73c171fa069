#include "services/cli/reply.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tandem::cli {
namespace {

v1::GenerateResponse Event(const std::string& text) {
  v1::GenerateResponse event;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &event));
  return event;
}

TEST(ReplyTest, JsonHoldsWhatTheStreamDelivered) {
  Reply reply;
  reply.Add(Event("started { request_id: 'r' model: 'm' seed: 18446744073709551615 }"));
  reply.Add(
      Event("delta { text: 'Hel' token_ids: [5, 6] rounds { tokens: 2 drafted: 3 accepted: 1 } "
            "logprobs { token_id: 5 logprob: -0.5 top { token_id: 9 logprob: -1 } } "
            "logprobs { token_id: 6 logprob: 0 } }"));
  reply.Add(Event("delta { text: 'lo' token_ids: 7 rounds { tokens: 1 } }"));
  reply.Add(
      Event("finished { reason: FINISH_REASON_STOP_TEXT stop_text: 'END' position: 12 usage { "
            "prompt_tokens: 9 generated_tokens: 3 drafted_tokens: 3 accepted_tokens: 1 "
            "retained_tokens: 1 "
            "rounds: 2 draft_rounds: 1 drafted_by_depth: [1, 1, 1] accepted_by_depth: [1, 0, 0] } "
            "timings { queue_seconds: 0.25 } }"));
  const nlohmann::json json = reply.ToJson();
  EXPECT_EQ(json["text"], "Hello");
  EXPECT_EQ(json["token_ids"], nlohmann::json({5, 6, 7}));
  EXPECT_EQ(json["finish_reason"], "STOP_TEXT");
  EXPECT_EQ(json["stop"], "END");
  EXPECT_EQ(json["seed"], 18446744073709551615u);
  EXPECT_EQ(json["position"], 12);
  EXPECT_EQ(json["usage"]["accepted_by_depth"], nlohmann::json({1, 0, 0}));
  EXPECT_EQ(json["usage"]["rounds"], 2);
  EXPECT_DOUBLE_EQ(json["timings"]["queue_seconds"], 0.25);
  EXPECT_EQ(json["logprobs"].size(), 2u);
  EXPECT_EQ(json["logprobs"][0]["top"][0]["token_id"], 9);
  EXPECT_EQ(json["rounds"][0]["accepted"], 1);
  EXPECT_FALSE(json.contains("reasoning_text"));
}

TEST(ReplyTest, LogprobsAreThereOnlyWhenAskedFor) {
  Reply reply;
  reply.Add(Event("delta { reasoning_text: 'hm' token_ids: 5 }"));
  reply.Add(Event("finished { reason: FINISH_REASON_MAX_TOKENS }"));
  EXPECT_FALSE(reply.ToJson().contains("logprobs"));
  EXPECT_FALSE(reply.ToJson().contains("stop"));
  EXPECT_EQ(reply.ToJson()["reasoning_text"], "hm");
  EXPECT_EQ(reply.ToJson()["finish_reason"], "MAX_TOKENS");
}

TEST(ReplyTest, OnlyMessagesWithTokensCountForIntervals) {
  Reply reply;
  EXPECT_TRUE(std::isnan(reply.DecodeTokensPerSecond()));
  reply.Add(Event("delta { token_ids: [1, 2, 3] }"));
  EXPECT_TRUE(std::isnan(reply.DecodeTokensPerSecond()));
  reply.Add(Event("delta { text: 'late text' }"));
  EXPECT_TRUE(reply.message_intervals().empty());
  reply.Add(Event("delta { token_ids: [4, 5] }"));
  ASSERT_EQ(reply.message_intervals().size(), 1u);
  EXPECT_GE(reply.message_intervals()[0], 0);
  EXPECT_DOUBLE_EQ(reply.DecodeTokensPerSecond(), 2 / reply.message_intervals()[0]);
}

}  // namespace
}  // namespace tandem::cli
