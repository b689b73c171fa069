#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "common/rpc/status.h"
#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

std::vector<uint32_t> IdsOf(const v1::GenerateRequest& request) {
  return {request.tokens().ids().begin(), request.tokens().ids().end()};
}

constexpr char kText[] = "The quick brown fox jumps over the lazy dog, 日本語 too.";

FakeBehaviour Saying(const std::string& text) {
  FakeBehaviour behaviour = {.script = Encode(text)};
  behaviour.script.push_back(0);
  return behaviour;
}

class GenerateTest : public RouterHarness {
 protected:
  void SetUp() override {
    AddVerifier(Saying(kText));
    StartRouter();
  }
  const v1::GenerateRequest& last() {
    last_ = verifiers_[0]->requests().back();
    return last_;
  }

 private:
  v1::GenerateRequest last_;
};

TEST_F(GenerateTest, TextComesBackAsTextIdsRoundsAndUsage) {
  v1::GenerateRequest request = TextRequest("hello there");
  request.set_request_id("r1");
  request.mutable_sampling()->set_seed(77);
  const Collected all = Generate(request);
  ASSERT_TRUE(all.status.ok()) << all.status;
  ASSERT_TRUE(all.started.has_value());
  EXPECT_EQ(all.started->request_id(), "r1");
  EXPECT_EQ(all.started->seed(), 77U);
  EXPECT_EQ(all.started->model(), "fake");
  const auto prompt = Encode("hello there");
  EXPECT_EQ(all.started->prompt_tokens(), prompt.size());
  EXPECT_EQ(all.started->position(), prompt.size());
  EXPECT_EQ(all.output.text(), kText);
  EXPECT_EQ(all.ids(), Encode(kText));
  ASSERT_TRUE(all.finished.has_value());
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_TRUE(all.finished->has_stop_token_id());
  EXPECT_EQ(all.finished->position(), prompt.size() + all.ids().size());
  EXPECT_EQ(all.finished->usage().generated_tokens(), all.ids().size());
  EXPECT_EQ(all.finished->usage().prompt_tokens(), prompt.size());
  EXPECT_EQ(all.finished->timings().queue_seconds(), 0.25);
  EXPECT_EQ(all.finished->timings().prefill_seconds(), 0.5);
  EXPECT_GT(all.finished->timings().time_to_first_token_seconds(), 0);
  EXPECT_EQ(all.after_terminal, 0);
  EXPECT_EQ(all.outcome, "OK");
  EXPECT_EQ(IdsOf(last()), prompt);
}

TEST_F(GenerateTest, OnceGivesTheSameAsTheStream) {
  const v1::GenerateRequest request = TextRequest("x", 9);
  const Collected all = Generate(request);
  grpc::ClientContext context;
  v1::GenerateOnceResponse once;
  ASSERT_TRUE(stub_->GenerateOnce(&context, request, &once).ok());
  EXPECT_EQ(once.output().text(), all.output.text());
  EXPECT_EQ(once.output().token_ids_size(), 9);
  EXPECT_EQ(once.output().SerializeAsString(), all.output.SerializeAsString());
  EXPECT_EQ(once.finished().reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(once.finished().usage().SerializeAsString(), all.finished->usage().SerializeAsString());
  EXPECT_FALSE(once.started().request_id().empty());
}

TEST_F(GenerateTest, EveryInputIsTaken) {
  v1::GenerateRequest request;
  request.mutable_tokens()->add_ids(33);
  request.mutable_tokens()->add_ids(4095);
  EXPECT_TRUE(Generate(request).finished.has_value());
  EXPECT_EQ(last().tokens().ids_size(), 2);
  request.set_prompt_utf8("日本");
  EXPECT_TRUE(Generate(request).finished.has_value());
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::ROLE_USER);
  message.set_content("hi");
  const Collected chat = Generate(request);
  EXPECT_EQ(chat.output.text(), kText);
  const auto expected = Encode("User: hi\n\nAssistant:");
  EXPECT_EQ(IdsOf(last()), expected);
}

TEST_F(GenerateTest, LogprobsComeWithTheirTokens) {
  v1::GenerateRequest request = TextRequest("x", 10);
  request.mutable_output()->set_top_logprobs(2);
  const Collected all = Generate(request);
  ASSERT_EQ(all.output.logprobs_size(), 10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(all.output.logprobs(i).token_id(), all.output.token_ids(i));
    EXPECT_EQ(all.output.logprobs(i).logprob(), -static_cast<float>(i));
    EXPECT_EQ(all.output.logprobs(i).top_size(), 2);
  }
}

TEST_F(GenerateTest, BadRequestsNeverReachAVerifier) {
  v1::GenerateRequest request = TextRequest("x");
  request.mutable_sampling()->set_top_p(2);
  const Collected all = Generate(request);
  EXPECT_EQ(all.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolations(all.status)[0].field, "sampling.top_p");
  EXPECT_EQ(all.outcome, "INVALID_ARGUMENT");
  EXPECT_FALSE(all.started.has_value());
  EXPECT_EQ(Generate(TextRequest("")).status.code(), absl::StatusCode::kInvalidArgument);
  const Collected priority = Generate(TextRequest("x"), [](grpc::ClientContext& context) {
    context.AddMetadata("tandem-priority", "loud");
  });
  EXPECT_EQ(FieldViolations(priority.status)[0].field, "tandem-priority");
  EXPECT_TRUE(verifiers_[0]->requests().empty());
}

TEST_F(GenerateTest, TraceAndPriorityReachTheVerifier) {
  constexpr char kParent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  Generate(TextRequest("x"), [&](grpc::ClientContext& context) {
    context.AddMetadata("traceparent", kParent);
    context.AddMetadata("tandem-priority", "7");
  });
  EXPECT_EQ(verifiers_[0]->last_metadata("traceparent"), kParent);
  EXPECT_EQ(last().priority(), 7);
  v1::GenerateRequest request = TextRequest("x");
  request.set_priority(-2);
  const Collected all = Generate(request, [](grpc::ClientContext& context) {
    context.AddMetadata("tandem-priority", "loud");
  });
  EXPECT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(last().priority(), -2);
}

TEST_F(GenerateTest, AMegabyteOfTextWorks) {
  std::string text;
  while (text.size() < (1 << 20)) text += "All work and no play. ";
  const Collected all = Generate(TextRequest(text, 3));
  ASSERT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(all.started->prompt_tokens(), Encode(text).size());
}

TEST_F(GenerateTest, TokenizeAndDetokenizeAreInverse) {
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text(kText);
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(stub_->Tokenize(&context, request, &tokens).ok());
  EXPECT_EQ(std::vector<uint32_t>(tokens.ids().begin(), tokens.ids().end()), Encode(kText));
  std::string joined;
  for (const std::string& piece : tokens.pieces()) joined += piece;
  EXPECT_EQ(joined, kText);
  grpc::ClientContext again;
  v1::DetokenizeRequest back;
  *back.mutable_ids() = tokens.ids();
  back.add_ids(0xE6 + 1);  // the first byte of a character
  v1::DetokenizeResponse text;
  ASSERT_TRUE(stub_->Detokenize(&again, back, &text).ok());
  EXPECT_EQ(text.raw(), std::string(kText) + "\xE6");
  EXPECT_EQ(text.text(), std::string(kText) + "\xEF\xBF\xBD");
}

TEST_F(GenerateTest, GetModelTellsTheVerifiersModelAndDrafter) {
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(stub_->GetModel(&context, {}, &model).ok());
  EXPECT_EQ(model.name(), "fake");
  EXPECT_EQ(model.hash(), "00000000000000aa");
  EXPECT_EQ(model.vocabulary_size(), 4096U);
  EXPECT_TRUE(model.drafter().attached());
}

TEST_F(GenerateTest, MetricsEqualWhatTheClientSaw) {
  const Collected all = Generate(TextRequest("one two"));
  ASSERT_TRUE(all.finished.has_value());
  EXPECT_TRUE(Eventually([&] {
    return Metric("tandem_requests_total{method=\"Generate\",model=\"fake\",outcome=\"OK\"}") == 1;
  })) << router_->metrics_page().Text();
  EXPECT_EQ(Metric("tandem_generated_tokens_total"), all.ids().size());
  EXPECT_EQ(Metric("tandem_retained_tokens_total"), all.finished->usage().retained_tokens());
  EXPECT_EQ(Metric("tandem_prompt_tokens_total"), Encode("one two").size());
  EXPECT_EQ(Metric("tandem_time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(Metric("tandem_active_streams"), 0);
}

TEST_F(GenerateTest, TheSamePartsOfAClientsReplyAreContinued) {
  v1::GenerateRequest request = TextRequest("x", 12);
  request.mutable_sampling()->set_seed(3);
  const Collected whole = Generate(request);
  const auto ids = whole.ids();
  *request.mutable_resume()->mutable_emitted_ids() = {ids.begin(), ids.begin() + 5};
  const Collected rest = Generate(request);
  EXPECT_EQ(rest.ids(), std::vector<uint32_t>(ids.begin() + 5, ids.end()));
  EXPECT_EQ(rest.finished->usage().generated_tokens(), 7U);
}

}  // namespace
}  // namespace tandem
