#include "services/cli/request_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <limits>

namespace tandem::cli {
namespace {

absl::StatusOr<v1::GenerateRequest> Parse(std::vector<std::string> arguments) {
  CLI::App app;
  RequestOptions options;
  AddSamplingOptions(app, options);
  AddStoppingOptions(app, options);
  AddRequestOptions(app, options);
  // CLI11 takes them last first.
  app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  return MakeRequest(options);
}

v1::GenerateRequest Expected(const std::string& text) {
  v1::GenerateRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request));
  return request;
}

TEST(RequestOptionsTest, WhatIsNotGivenIsAbsent) {
  const auto request = Parse({});
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(
      *request, Expected("sampling {} stopping {}")))
      << request->DebugString();
}

// What the command line below asks for.
constexpr char kEveryField[] = R"pb(
  request_id: "r"
  model: "m"
  priority: -4
  sampling {
    temperature: 0
    top_k: 40
    top_p: 0.5
    min_p: 0.25
    presence_penalty: 1
    frequency_penalty: -2
    repetition_penalty: 1.5
    penalty_decay: 0.75
    seed: 0
    logit_bias { token_id: 5 bias: -2.5 }
    logit_bias { token_id: 7 bias: 1 }
    order: SAMPLING_ORDER_NUCLEUS_FIRST
  }
  stopping {
    max_tokens: 9
    min_tokens: 3
    stop_texts: "END"
    stop_texts: "x"
    stop_token_ids: 8
    stop_token_ids: 11
    ignore_eos: true
    include_stop_in_output: true
  }
  output { top_logprobs: 0 }
  speculation { max_drafts: 0 })pb";

TEST(RequestOptionsTest, EveryOptionReachesItsField) {
  const auto request = Parse({"--temperature=0",
                              "--top-k=40",
                              "--top-p=0.5",
                              "--min-p=0.25",
                              "--presence-penalty",
                              "1",
                              "--frequency-penalty",
                              "-2",
                              "--repetition-penalty=1.5",
                              "--penalty-decay=0.75",
                              "--seed=0",
                              "--logit-bias=5=-2.5",
                              "--logit-bias",
                              "7=1",
                              "--sampling-order=nucleus-first",
                              "-n",
                              "9",
                              "--min-tokens=3",
                              "--stop",
                              "END",
                              "--stop=x",
                              "--stop-token=8",
                              "--stop-token=11",
                              "--ignore-eos",
                              "--include-stop",
                              "--logprobs=0",
                              "--max-drafts=0",
                              "--model=m",
                              "--request-id=r",
                              "--priority=-4"});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equivalent(*request, Expected(kEveryField)))
      << request->DebugString();
}

TEST(RequestOptionsTest, ABiasOfMinusInfinityBans) {
  const auto request = Parse({"--logit-bias=0=-inf"});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->sampling().logit_bias(0).bias(), -std::numeric_limits<float>::infinity());
}

TEST(RequestOptionsTest, ABadBiasSaysWhatIsWanted) {
  for (const char* text : {"--logit-bias=5", "--logit-bias=a=1", "--logit-bias=5=b"}) {
    const auto request = Parse({text});
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(request.status().message()), testing::HasSubstr("ID=BIAS"));
  }
}

TEST(RequestOptionsTest, UnknownOptionsAndWordsForNumbersAreRefused) {
  EXPECT_THROW(Parse({"--temperatur=1"}).IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--top-k=many"}).IgnoreError(), CLI::ParseError);
  EXPECT_THROW(Parse({"--sampling-order=other"}).IgnoreError(), CLI::ParseError);
}

TEST(RequestOptionsTest, ThinkModes) {
  EXPECT_EQ(*ParseThinkMode("off"), v1::THINK_MODE_OFF);
  EXPECT_EQ(*ParseThinkMode("on"), v1::THINK_MODE_ON);
  EXPECT_EQ(*ParseThinkMode("skip"), v1::THINK_MODE_SKIP);
  EXPECT_FALSE(ParseThinkMode("maybe").ok());
}

}  // namespace
}  // namespace tandem::cli
