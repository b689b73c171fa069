#include "services/router/plan.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/status.h"
#include "tests/unit/router/demo_vocabulary.h"

namespace tandem {
namespace {

std::shared_ptr<const ServedModel> Model(uint32_t max_prompt_tokens = 1000) {
  auto model = std::make_shared<ServedModel>();
  model->model.set_name("demo");
  model->model.set_vocabulary_size(4096);
  model->model.set_max_tokens(500);
  model->model.set_max_prompt_tokens(max_prompt_tokens);
  model->vocabulary = std::make_shared<const Vocabulary>(DemoVocabulary());
  return model;
}

absl::StatusOr<Plan> Make(const v1::GenerateRequest& request,
                          const std::vector<uint32_t>& history = {},
                          const RequestMetadata& metadata = {}) {
  return MakePlan(request, metadata, Model(), history);
}

v1::GenerateRequest Chat(const std::vector<std::pair<v1::Role, std::string>>& messages) {
  v1::GenerateRequest request;
  for (const auto& [role, content] : messages) {
    v1::ChatMessage& message = *request.mutable_chat()->add_messages();
    message.set_role(role);
    message.set_content(content);
  }
  return request;
}

TEST(Plan, TextIsEncodedAsItStands) {
  v1::GenerateRequest request;
  request.set_prompt("User: hi\n\nAssistant:");
  EXPECT_EQ(Make(request)->input_ids, Encode("User: hi\n\nAssistant:"));
  request.set_prompt_utf8("日本");
  EXPECT_EQ(Make(request)->input_ids, Encode("日本"));
}

TEST(Plan, BytesThatAreNotUtf8AreRefused) {
  v1::GenerateRequest request;
  request.set_prompt_utf8("a\xff");
  const auto plan = Make(request);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolations(plan.status())[0].field, "prompt_utf8");
}

TEST(Plan, ChatIsRenderedInTheTemplate) {
  v1::GenerateRequest request =
      Chat({{v1::ROLE_SYSTEM, "Be brief."}, {v1::ROLE_USER, " a\r\n\r\nb "}});
  const auto plan = Make(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->input_ids, Encode("System: Be brief.\n\nUser: a\nb\n\nAssistant:"));
  EXPECT_EQ(plan->reply.stops, (std::vector<std::string>{"\n\nUser:", "\nUser:", "\n\nSystem:"}));
  EXPECT_EQ(plan->reply.think, ThinkMode::kOff);
  request.mutable_chat()->set_think(v1::THINK_MODE_ON);
  request.mutable_chat()->set_default_stops(false);
  request.mutable_chat()->set_clean_text(false);
  const auto raw = Make(request);
  EXPECT_EQ(raw->input_ids, Encode("System: Be brief.\n\nUser:  a\r\n\r\nb \n\nAssistant: <think"));
  EXPECT_TRUE(raw->reply.stops.empty());
  request.mutable_chat()->set_think(v1::THINK_MODE_SKIP);
  EXPECT_EQ(Make(request)->reply.think, ThinkMode::kFake);
}

TEST(Plan, ANewTurnOfASessionIsRenderedAlone) {
  const v1::GenerateRequest request = Chat({{v1::ROLE_USER, "more"}});
  EXPECT_EQ(Make(request, Encode("x"))->input_ids, Encode("\n\nUser: more\n\nAssistant:"));
  // A token that ends the line already counts.
  EXPECT_EQ(Make(request, Encode("x\n"))->input_ids, Encode("\nUser: more\n\nAssistant:"));
}

TEST(Plan, AChatMustEndWithTheUser) {
  const auto plan = Make(Chat({{v1::ROLE_USER, "a"}, {v1::ROLE_ASSISTANT, "b"}}));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolations(plan.status())[0].field, "chat.messages");
}

TEST(Plan, TheVerifierGetsIdsAndTheSeedButNoText) {
  v1::GenerateRequest request;
  request.set_prompt("x");
  request.mutable_sampling()->set_temperature(0.5F);
  request.mutable_stopping()->add_stop_texts("END");
  request.mutable_stopping()->add_stop_token_ids(7);
  request.mutable_stopping()->set_include_stop_in_output(true);
  request.mutable_speculation()->set_max_drafts(2);
  const auto plan = Make(request, {}, {.priority = 5});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->base.input_case(), v1::GenerateRequest::INPUT_NOT_SET);
  EXPECT_TRUE(plan->base.stopping().stop_texts().empty());
  EXPECT_EQ(plan->base.stopping().max_tokens(), 256U);
  EXPECT_EQ(plan->base.sampling().temperature(), 0.5F);
  EXPECT_EQ(plan->base.sampling().seed(), plan->seed);
  EXPECT_EQ(plan->base.speculation().max_drafts(), 2U);
  EXPECT_EQ(plan->base.priority(), 5);
  EXPECT_TRUE(plan->IsStopToken(7));
  EXPECT_TRUE(plan->IsStopToken(0));
  EXPECT_FALSE(plan->IsStopToken(8));
  request.mutable_stopping()->set_ignore_eos(true);
  EXPECT_FALSE(Make(request)->IsStopToken(0));
}

TEST(Plan, SeedAndRequestIdAreKeptOrChosenAnew) {
  v1::GenerateRequest request;
  request.set_prompt("x");
  const auto a = Make(request);
  const auto b = Make(request);
  EXPECT_NE(a->seed, b->seed);
  EXPECT_NE(a->request_id, b->request_id);
  request.set_request_id("mine");
  request.mutable_sampling()->set_seed(0);
  EXPECT_EQ(Make(request)->seed, 0U);
  EXPECT_EQ(Make(request)->request_id, "mine");
}

TEST(Plan, TooManyTokensAreOutOfRangeWithTheLimit) {
  v1::GenerateRequest request;
  request.set_prompt("a b c d e f");
  const auto plan = MakePlan(request, {}, Model(2), {});
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(FieldViolations(plan.status())[0].field, "prompt");
  EXPECT_NE(plan.status().message().find("at most 2"), absl::string_view::npos);
}

TEST(Plan, AnEmptySessionHasNothingToContinue) {
  v1::GenerateRequest request;
  request.mutable_session()->set_session_id("s");
  EXPECT_EQ(Make(request).status().code(), absl::StatusCode::kFailedPrecondition);
  const auto plan = Make(request, {5});
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->input_ids.empty());
}

}  // namespace
}  // namespace tandem
