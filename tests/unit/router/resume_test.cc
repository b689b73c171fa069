#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

constexpr char kText[] =
    "One two three, 日本語 four five 🙂 six. STOP and more text behind the stop";

class ResumeTest : public RouterHarness {
 protected:
  FakeBehaviour Saying() {
    FakeBehaviour behaviour = {.script = Encode(kText)};
    behaviour.script.resize(behaviour.script.size() + 2000, 33);
    return behaviour;
  }
  // A request with everything on that a resumed reply could lose.
  v1::GenerateRequest Request() {
    v1::GenerateRequest request = TextRequest("prompt", 1000);
    request.mutable_sampling()->set_presence_penalty(1);
    request.mutable_stopping()->add_stop_texts("STOP");
    request.mutable_output()->set_top_logprobs(2);
    return request;
  }
  static void ExpectSame(const Collected& a, const Collected& b) {
    ASSERT_TRUE(b.finished.has_value()) << b.status;
    EXPECT_EQ(a.output.text(), b.output.text());
    EXPECT_EQ(a.ids(), b.ids());
    ASSERT_EQ(a.output.logprobs_size(), b.output.logprobs_size());
    for (int i = 0; i < a.output.logprobs_size(); ++i) {
      EXPECT_EQ(a.output.logprobs(i).SerializeAsString(), b.output.logprobs(i).SerializeAsString());
    }
    EXPECT_EQ(a.finished->reason(), b.finished->reason());
    EXPECT_EQ(a.finished->stop_text(), b.finished->stop_text());
    EXPECT_EQ(a.finished->position(), b.finished->position());
    EXPECT_EQ(a.finished->usage().generated_tokens(), b.finished->usage().generated_tokens());
    EXPECT_EQ(b.after_terminal, 0);
  }
};

TEST_F(ResumeTest, ABreakAtEveryTokenChangesNothing) {
  AddVerifier(Saying());
  AddVerifier(Saying());
  StartRouter();
  const Collected whole = Generate(Request());
  ASSERT_EQ(whole.finished->reason(), v1::FINISH_REASON_STOP_TEXT);
  for (size_t at = 0; at <= whole.ids().size() + 1; ++at) {
    for (const auto& each : verifiers_) {
      each->Edit([at](FakeBehaviour& behaviour) { behaviour.breaks_at = {at}; });
    }
    const Collected all = Generate(Request());
    SCOPED_TRACE(at);
    ExpectSame(whole, all);
  }
  EXPECT_GT(Metric("tandem_resumed_streams_total"), 0);
  // The seed was fixed before the first submission.
  std::vector<v1::GenerateRequest> requests = verifiers_[0]->requests();
  const std::vector<v1::GenerateRequest> others = verifiers_[1]->requests();
  requests.insert(requests.end(), others.begin(), others.end());
  const auto resumed =
      std::find_if(requests.begin(), requests.end(), [](const auto& r) { return r.has_resume(); });
  ASSERT_NE(resumed, requests.end());
  EXPECT_TRUE(resumed->sampling().has_seed());
}

TEST_F(ResumeTest, ManyBreaksInOneReply) {
  AddVerifier(Saying());
  StartRouter();
  const Collected whole = Generate(Request());
  verifiers_[0]->Edit([](FakeBehaviour& b) { b.breaks_at = {0, 1, 2, 5, 6, 9}; });
  ExpectSame(whole, Generate(Request()));
  EXPECT_TRUE(verifiers_[0]->requests().back().has_resume());
}

TEST_F(ResumeTest, ABreakAtTheLastTokenIsFinishedLocally) {
  AddVerifier(Saying());
  StartRouter();
  verifiers_[0]->Edit([](FakeBehaviour& b) { b.breaks_at = {6}; });
  const size_t before = verifiers_[0]->requests().size();
  const Collected all = Generate(TextRequest("p", 6));
  ASSERT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(all.ids().size(), 6U);
  EXPECT_EQ(verifiers_[0]->requests().size(), before + 1) << "no second submission";
}

TEST_F(ResumeTest, ABreakBehindAnIncludedStopTokenIsFinishedLocally) {
  AddVerifier(Saying());
  StartRouter();
  const uint32_t fourth = Encode(kText)[3];
  verifiers_[0]->Edit([](FakeBehaviour& b) { b.breaks_at = {4}; });
  v1::GenerateRequest request = TextRequest("p", 100);
  request.mutable_stopping()->add_stop_token_ids(fourth);
  request.mutable_stopping()->set_include_stop_in_output(true);
  const Collected all = Generate(request);
  ASSERT_TRUE(all.finished.has_value()) << all.status;
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(all.finished->stop_token_id(), fourth);
  EXPECT_EQ(verifiers_[0]->requests().size(), 1U);
}

TEST_F(ResumeTest, ARetryableFailureIsResumedAnotherIsTold) {
  AddVerifier(Saying());
  StartRouter();
  const Collected whole = Generate(Request());
  verifiers_[0]->Edit([](FakeBehaviour& b) {
    b.fails_at = 5;
    b.failure.set_code(14);
    b.failure.set_reason("DRAINING");
    b.failure.set_retryable(true);
  });
  ExpectSame(whole, Generate(Request()));
  verifiers_[0]->Edit([](FakeBehaviour& b) {
    b.fails_at = 5;
    b.failure.set_code(13);
    b.failure.set_reason("BROKEN");
    b.failure.set_retryable(false);
  });
  const Collected all = Generate(Request());
  EXPECT_TRUE(all.status.ok()) << "after `started` a failure is an event";
  ASSERT_TRUE(all.failed.has_value());
  EXPECT_EQ(all.failed->code(), 13);
  EXPECT_EQ(all.failed->reason(), "BROKEN");
  EXPECT_FALSE(all.failed->retryable());
  EXPECT_EQ(all.failed->usage().generated_tokens(), 5U);
  EXPECT_EQ(all.ids().size(), 5U);
  EXPECT_EQ(all.outcome, "INTERNAL");
  EXPECT_EQ(all.after_terminal, 0);
}

TEST_F(ResumeTest, AKilledVerifierThatComesBackGoesOn) {
  FakeBehaviour behaviour = Saying();
  FakeVerifier& verifier = AddVerifier(behaviour);
  StartRouter();
  const Collected whole = Generate(Request());
  verifier.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(20); });
  Collected all;
  std::thread client([&] { all = Generate(Request()); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  absl::SleepFor(absl::Milliseconds(50));
  verifier.Kill();
  EXPECT_TRUE(Eventually([&] { return Metric("tandem_verifiers_up{") == 0; }));
  absl::SleepFor(absl::Milliseconds(300));
  verifier.Start();
  client.join();
  ExpectSame(whole, all);
  EXPECT_EQ(Metric("tandem_resumed_streams_total"), 1);
}

TEST_F(ResumeTest, AKilledVerifierIsReplacedByAnother) {
  FakeBehaviour behaviour = Saying();
  FakeVerifier& first = AddVerifier(behaviour);
  FakeVerifier& second = AddVerifier(behaviour);
  second.Edit([](FakeBehaviour& b) { b.slots_used = 7; });
  StartRouter();
  const Collected whole = Generate(Request());
  first.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(20); });
  Collected all;
  std::thread client([&] { all = Generate(Request()); });
  EXPECT_TRUE(Eventually([&] { return first.running() == 1; }));
  absl::SleepFor(absl::Milliseconds(50));
  first.Kill();
  client.join();
  ExpectSame(whole, all);
  ASSERT_EQ(second.requests().size(), 1U);
  EXPECT_TRUE(second.requests()[0].has_resume());
}

TEST_F(ResumeTest, WithoutAVerifierTheStreamFailsAfterTheTimeout) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter([](Router::Options& o) { o.relay.resume_timeout = absl::Milliseconds(300); });
  verifier.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(20); });
  Collected all;
  std::thread client([&] { all = Generate(TextRequest("p", 1000)); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  absl::SleepFor(absl::Milliseconds(50));
  verifier.Kill();
  client.join();
  EXPECT_TRUE(all.status.ok());
  ASSERT_TRUE(all.failed.has_value());
  EXPECT_EQ(all.failed->code(), 14);
  EXPECT_EQ(all.failed->reason(), "RESUME_TIMEOUT");
  EXPECT_TRUE(all.failed->retryable());
  EXPECT_EQ(all.outcome, "UNAVAILABLE");
}

TEST_F(ResumeTest, ADrainingVerifierHandsItsStreamOver) {
  FakeVerifier& first = AddVerifier(Saying());
  FakeVerifier& second = AddVerifier(Saying());
  second.Edit([](FakeBehaviour& b) { b.slots_used = 7; });
  StartRouter();
  const Collected whole = Generate(Request());
  first.Edit([](FakeBehaviour& b) {
    b.fails_at = 7;
    b.failure.set_code(14);
    b.failure.set_reason("DRAINING");
    b.failure.set_retryable(true);
    b.step = absl::Milliseconds(10);
  });
  Collected all;
  std::thread client([&] { all = Generate(Request()); });
  EXPECT_TRUE(Eventually([&] { return first.running() == 1; }));
  first.Edit([](FakeBehaviour& b) { b.accepting = false; });
  client.join();
  ExpectSame(whole, all);
  EXPECT_EQ(second.requests().size(), 1U);
}

}  // namespace
}  // namespace tandem
