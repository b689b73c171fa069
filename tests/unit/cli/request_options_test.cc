#include "services/cli/request_options.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <array>
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
  for (const char* text :
       {"--logit-bias=5", "--logit-bias=a=1", "--logit-bias=5=b", "--logit-bias=5=nan",
        "--logit-bias=5=inf", "--logit-bias=5=101", "--logit-bias=-1=1"}) {
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

TEST(RequestOptionsTest, NumbersOutsideTheirRangeNameOptionValueAndRange) {
  const std::vector<std::array<const char*, 3>> cases = {
      {"--seed", "18446744073709551616", "18446744073709551615"},
      {"--seed", "-1", "from 0"},
      {"--top-k", "4294967296", "4294967295"},
      {"--max-tokens", "0", "from 1"},
      {"--stop-token", "-1", "from 0"},
      {"--temperature", "101", "from 0 to 100"},
      {"--temperature", "nan", "from 0 to 100"},
      {"--top-p", "0", "above 0 to 1"},
      {"--min-p", "1", "from 0 to below 1"},
      {"--presence-penalty", "-100.5", "from -100 to 100"},
      {"--repetition-penalty", "inf", "above 0 to 100"},
      {"--penalty-decay", "1e300", "above 0 to 1"},
      {"--priority", "101", "from -100 to 100"},
      {"--max-drafts", "9", "from 0 to 8"},
      {"--logprobs", "21", "from 0 to 20"},
      {"--timeout", "nan", "30s or 1m30s"},
      {"--timeout", "inf", "1ms to 24h"},
      {"--timeout", "1e300", "1ms to 24h"}};
  for (const auto& [option, value, range] : cases) {
    try {
      Parse({std::string(option) + "=" + value}).IgnoreError();
      ADD_FAILURE() << option << " took " << value;
    } catch (const CLI::ParseError& error) {
      EXPECT_THAT(error.what(),
                  testing::AllOf(testing::HasSubstr(option), testing::HasSubstr(value),
                                 testing::HasSubstr(range)));
    }
  }
}

TEST(RequestOptionsTest, TextThatIsNotUtf8NamesItsOption) {
  for (const std::string option : {"--stop", "--request-id", "--model"}) {
    try {
      Parse({option + "=a\xFF"}).IgnoreError();
      ADD_FAILURE() << option;
    } catch (const CLI::ParseError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(option + ": not UTF-8 at byte 1"));
    }
  }
}

TEST(RequestOptionsTest, ThinkModes) {
  EXPECT_EQ(*ParseThinkMode("off"), v1::THINK_MODE_OFF);
  EXPECT_EQ(*ParseThinkMode("on"), v1::THINK_MODE_ON);
  EXPECT_EQ(*ParseThinkMode("skip"), v1::THINK_MODE_SKIP);
  EXPECT_FALSE(ParseThinkMode("maybe").ok());
}

}  // namespace
}  // namespace tandem::cli
