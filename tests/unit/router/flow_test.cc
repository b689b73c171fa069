#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "common/rpc/status.h"
#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

class FlowTest : public RouterHarness {
 protected:
  static FakeBehaviour Endless(size_t tokens = 60'000) {
    FakeBehaviour behaviour = {.rounds = {8}};
    for (size_t i = 0; i < tokens; ++i) behaviour.script.push_back('a' + 1 + i % 26);
    return behaviour;
  }
  static void Refuse(FakeVerifier& verifier, int times) {
    verifier.Edit([times](FakeBehaviour& b) {
      b.refusals = times;
      b.refusal = ToGrpc(RetryLaterError(absl::StatusCode::kResourceExhausted, "QUEUE_FULL",
                                         "the queue is full", absl::Milliseconds(700)));
    });
  }
};

TEST_F(FlowTest, AFullVerifierIsLeftForAnotherOnce) {
  AddVerifier(Endless());
  AddVerifier(Endless());
  // Of equally loaded ones the one with the lower address is taken.
  const bool in_order = verifiers_[0]->address() < verifiers_[1]->address();
  FakeVerifier& first = *verifiers_[in_order ? 0 : 1];
  FakeVerifier& second = *verifiers_[in_order ? 1 : 0];
  StartRouter();
  Refuse(first, 1);
  Refuse(second, 0);
  ASSERT_TRUE(Generate(TextRequest("x", 4)).finished.has_value());
  EXPECT_EQ(first.requests().size() + second.requests().size(), 2U);
  Refuse(first, 1);
  Refuse(second, 1);
  const Collected all = Generate(TextRequest("x", 4));
  EXPECT_EQ(all.status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(all.status), "QUEUE_FULL");
  ASSERT_TRUE(RetryDelay(all.status).has_value());
  EXPECT_EQ(*RetryDelay(all.status), absl::Milliseconds(700));
  EXPECT_EQ(all.outcome, "RESOURCE_EXHAUSTED");
}

TEST_F(FlowTest, ALoneFullVerifierIsToldAtOnce) {
  FakeVerifier& verifier = AddVerifier(Endless());
  StartRouter();
  Refuse(verifier, 1);
  EXPECT_EQ(Generate(TextRequest("x", 4)).status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(verifier.requests().size(), 1U);
}

TEST_F(FlowTest, TheLeastLoadedVerifierIsTaken) {
  FakeVerifier& first = AddVerifier(Endless());
  FakeVerifier& second = AddVerifier(Endless());
  first.Edit([](FakeBehaviour& b) { b.slots_used = 5; });
  StartRouter();
  for (int i = 0; i < 3; ++i) Generate(TextRequest("x", 4));
  EXPECT_TRUE(first.requests().empty());
  EXPECT_EQ(second.requests().size(), 3U);
}

TEST_F(FlowTest, ACancelReachesTheVerifier) {
  FakeBehaviour behaviour = Endless();
  behaviour.step = absl::Milliseconds(10);
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter();
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("x", 50'000));
  v1::GenerateResponse response;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return verifier.cancelled() == 1; }, absl::Seconds(1)));
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 0; }));
  EXPECT_EQ(Collect(context, *reader).status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return Metric("tandem_active_streams") == 0; }));
  EXPECT_TRUE(absl::StrContains(router_->metrics_page().Text(), "outcome=\"CANCELLED\""));
}

TEST_F(FlowTest, CancelByIdIsIdempotent) {
  FakeBehaviour behaviour = Endless();
  behaviour.step = absl::Milliseconds(10);
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter();
  v1::GenerateRequest request = TextRequest("x", 50'000);
  request.set_request_id("long");
  Collected all;
  std::thread client([&] { all = Generate(request); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  EXPECT_EQ(Generate(request).status.code(), absl::StatusCode::kAlreadyExists);
  const auto cancel = [this](const std::string& id) {
    grpc::ClientContext context;
    v1::CancelRequest message;
    message.set_request_id(id);
    v1::CancelResponse response;
    return FromGrpc(stub_->Cancel(&context, message, &response)).code();
  };
  EXPECT_EQ(cancel("long"), absl::StatusCode::kOk);
  client.join();
  EXPECT_EQ(all.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(cancel("long"), absl::StatusCode::kOk) << "finished requests are known";
  EXPECT_EQ(cancel("other"), absl::StatusCode::kNotFound);
}

TEST_F(FlowTest, ADeadlineEndsTheCallEverywhere) {
  FakeBehaviour behaviour = Endless();
  behaviour.step = absl::Milliseconds(10);
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter([](Router::Options& o) { o.default_timeout = absl::Milliseconds(200); });
  const Collected told = Generate(TextRequest("x", 50'000), [](grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  });
  EXPECT_EQ(told.status.code(), absl::StatusCode::kDeadlineExceeded);
  // Without a deadline of its own the router's applies.
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, TextRequest("x", 50'000));
  EXPECT_EQ(Collect(context, *reader).status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 0; }));
}

TEST_F(FlowTest, ASlowReaderGetsEveryTokenThatWasSentAndThenTheFailure) {
  FakeBehaviour paced = Endless();
  paced.step = absl::Microseconds(200);  // still running when the router gives up
  FakeVerifier& verifier = AddVerifier(std::move(paced));
  StartRouter([](Router::Options& o) {
    o.relay.slow_reader_timeout = absl::Milliseconds(200);
    o.relay.max_pending_tokens = 64;
  });
  v1::GenerateRequest request = TextRequest("x", 59'000);
  request.mutable_output()->set_top_logprobs(20);  // large messages fill the connection's window
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub_->Generate(&context, request);
  EXPECT_TRUE(Eventually([&] { return verifier.cancelled() == 1; }, absl::Seconds(30)))
      << "the verifier is freed";
  const Collected all = Collect(context, *reader);
  EXPECT_TRUE(all.status.ok()) << all.status;
  ASSERT_TRUE(all.failed.has_value());
  EXPECT_EQ(all.failed->code(), 1);
  EXPECT_EQ(all.failed->reason(), "SLOW_READER");
  EXPECT_EQ(all.failed->usage().generated_tokens(), all.ids().size());
  const auto script = Endless().script;
  EXPECT_TRUE(
      std::equal(all.output.token_ids().begin(), all.output.token_ids().end(), script.begin()));
  EXPECT_EQ(all.outcome, "CANCELLED");
}

TEST_F(FlowTest, AReaderThatCatchesUpLosesNothing) {
  AddVerifier(Endless());
  StartRouter([](Router::Options& o) { o.relay.max_pending_tokens = 16; });
  v1::GenerateRequest request = TextRequest("x", 50'000);
  request.mutable_output()->set_top_logprobs(20);  // more than the connection's window takes
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  absl::SleepFor(absl::Milliseconds(300));
  const Collected all = Collect(context, *reader);
  ASSERT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(all.ids().size(), 50'000U);
  EXPECT_EQ(all.finished->usage().generated_tokens(), 50'000U);
  EXPECT_LT(all.deltas, 50'000 / 8) << "what gathers becomes larger messages";
}

TEST_F(FlowTest, NoVerifierIsUnavailableAndSaysWhy) {
  FakeVerifier& verifier = AddVerifier(Endless());
  verifier.Kill();
  StartRouter({}, 0);
  const Collected all = Generate(TextRequest("x", 4));
  EXPECT_EQ(all.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(all.status.message(), "no verifier is ready"));
  EXPECT_TRUE(absl::StrContains(all.status.message(), verifier.address()));
  verifier.Start();
  EXPECT_TRUE(Eventually([&] { return Generate(TextRequest("x", 4)).finished.has_value(); }));
}

TEST_F(FlowTest, AVerifierThatIsBackWithinTheWaitIsWaitedFor) {
  FakeVerifier& verifier = AddVerifier(Endless());
  StartRouter();
  verifier.Kill();
  EXPECT_TRUE(Eventually([&] { return Metric("tandem_verifiers_up{") == 0; }));
  Collected all;
  std::thread client([&] { all = Generate(TextRequest("x", 4)); });
  absl::SleepFor(absl::Milliseconds(200));
  verifier.Start();
  client.join();
  EXPECT_TRUE(all.finished.has_value()) << all.status;
}

// One of two verifiers differs; whatever is different, only one of them may be used.
class FlowTestOfDifferentVerifiers
    : public FlowTest,
      public testing::WithParamInterface<std::string FakeBehaviour::*> {};

TEST_P(FlowTestOfDifferentVerifiers, OneIsNotUsed) {
  FakeVerifier& good = AddVerifier(Endless());
  StartRouter();
  FakeBehaviour behaviour = Endless();
  behaviour.*GetParam() = "00000000000000bb";
  FakeVerifier& other = AddVerifier(behaviour);
  // The first model that is seen is the served one; which one that is depends on who is faster.
  StartRouter({}, 1);
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(Metric("tandem_verifiers_up{"), 1);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Generate(TextRequest("x", 4)).finished.has_value());
  EXPECT_TRUE(good.requests().empty() || other.requests().empty());
}

INSTANTIATE_TEST_SUITE_P(FlowTest, FlowTestOfDifferentVerifiers,
                         testing::Values(&FakeBehaviour::model_hash,
                                         &FakeBehaviour::weight_format));

TEST_F(FlowTest, DrainLetsRunningRequestsFinishAndRefusesNewOnes) {
  FakeBehaviour behaviour = Endless();
  behaviour.step = absl::Milliseconds(10);
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter();
  Collected all;
  std::thread client([&] { all = Generate(TextRequest("x", 200)); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  router_->BeginDrain();
  const Collected refused = Generate(TextRequest("y", 4));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(refused.status), "DRAINING");
  client.join();
  ASSERT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(all.ids().size(), 200U);
}

TEST_F(FlowTest, EndingTheRouterEndsEveryCall) {
  FakeBehaviour behaviour = Endless();
  behaviour.step = absl::Milliseconds(10);
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter();
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] { Generate(TextRequest("x", 50'000)); });
  }
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 8; }));
  router_.reset();
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 0; }));
}

}  // namespace
}  // namespace tandem
