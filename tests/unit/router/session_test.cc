#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "common/rpc/status.h"
#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

class SessionTest : public RouterHarness {
 protected:
  FakeBehaviour Saying(const std::string& text = "alpha beta gamma delta") {
    FakeBehaviour behaviour = {.script = Encode(text)};
    behaviour.script.resize(behaviour.script.size() + 2000, 33);
    return behaviour;
  }
  v1::GenerateRequest Turn(const std::string& session, const std::string& text) {
    v1::GenerateRequest request = TextRequest(text, 5);
    request.mutable_session()->set_session_id(session);
    return request;
  }
  absl::StatusOr<v1::Session> Describe(const std::string& id) {
    grpc::ClientContext context;
    v1::DescribeSessionRequest request;
    request.set_session_id(id);
    v1::Session session;
    const absl::Status status = FromGrpc(sessions_->DescribeSession(&context, request, &session));
    if (!status.ok()) return status;
    return session;
  }
  absl::Status Close(const std::string& id) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    return FromGrpc(sessions_->CloseSession(&context, request, &response));
  }
  // Tokens of a request's own input.
  static size_t Inputs(const v1::GenerateRequest& request) { return request.tokens().ids_size(); }
};

TEST_F(SessionTest, ALaterTurnSendsOnlyWhatIsNew) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession("chat").session_id();
  EXPECT_EQ(id, "chat");
  EXPECT_FALSE(Describe(id)->resident());
  const Collected first = Generate(Turn(id, "hello"));
  ASSERT_TRUE(first.finished.has_value()) << first.status;
  const uint64_t position = Encode("hello").size() + 5;
  EXPECT_EQ(first.finished->position(), position);
  EXPECT_EQ(Describe(id)->position(), position);
  EXPECT_TRUE(Describe(id)->resident());
  const Collected second = Generate(Turn(id, "more"));
  EXPECT_EQ(second.started->prompt_tokens(), Encode("more").size());
  EXPECT_EQ(second.started->cached_prompt_tokens(), position);
  EXPECT_EQ(second.started->position(), position + Encode("more").size());
  EXPECT_EQ(Inputs(verifier.requests()[1]), Encode("more").size());
  EXPECT_EQ(verifier.requests()[1].session().expected_position(), position);
}

TEST_F(SessionTest, AffinityBeatsLoad) {
  FakeVerifier& first = AddVerifier(Saying());
  FakeVerifier& second = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  Generate(Turn(id, "a"));
  FakeVerifier& holder = first.sessions().empty() ? second : first;
  FakeVerifier& other = &holder == &first ? second : first;
  holder.Edit([](FakeBehaviour& b) { b.slots_used = 7; });
  absl::SleepFor(absl::Milliseconds(100));
  for (int i = 0; i < 3; ++i) Generate(Turn(id, "b"));
  EXPECT_EQ(holder.requests().size(), 4U);
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(SessionTest, ALostVerifiersSessionIsComputedAgainElsewhere) {
  AddVerifier(Saying());
  AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  Generate(Turn(id, "hello"));
  FakeVerifier& holder = verifiers_[0]->sessions().empty() ? *verifiers_[1] : *verifiers_[0];
  FakeVerifier& other = &holder == verifiers_[0].get() ? *verifiers_[1] : *verifiers_[0];
  const std::vector<uint32_t> history = holder.sessions().begin()->second;
  holder.Kill();
  EXPECT_TRUE(Eventually([&] { return Metric("tandem_verifiers_up{") == 1; }));
  const Collected next = Generate(Turn(id, "more"));
  ASSERT_TRUE(next.finished.has_value()) << next.status;
  EXPECT_EQ(next.started->prompt_tokens(), Encode("more").size());
  std::vector<uint32_t> expected = history;
  for (const uint32_t token : Encode("more")) expected.push_back(token);
  const v1::GenerateRequest recomputed = other.requests()[0];
  const auto& ids = recomputed.tokens().ids();
  EXPECT_EQ(std::vector<uint32_t>(ids.begin(), ids.end()), expected);
  EXPECT_EQ(next.finished->position(), expected.size() + 5);
}

TEST_F(SessionTest, ASessionThatTheVerifierForgotIsComputedAgain) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  const uint64_t position = Generate(Turn(id, "hello")).finished->position();
  verifier.DropSessions();
  const Collected next = Generate(Turn(id, "more"));
  ASSERT_TRUE(next.finished.has_value()) << next.status;
  EXPECT_EQ(next.finished->position(), position + Encode("more").size() + 5);
}

TEST_F(SessionTest, ABreakInATurnIsResumedWithTheHistory) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  Generate(Turn(id, "hello"));
  const Collected whole = Generate(Turn(id, "more"));
  verifier.Edit([](FakeBehaviour& b) { b.breaks_at = {2}; });
  const Collected next = Generate(Turn(id, "more"));
  ASSERT_TRUE(next.finished.has_value()) << next.status;
  EXPECT_EQ(next.ids(), whole.ids());
  EXPECT_EQ(next.finished->position(), whole.finished->position() + Encode("more").size() + 5);
  EXPECT_EQ(verifier.requests().back().resume().emitted_ids_size(), 2);
  EXPECT_TRUE(Eventually([&] { return verifier.sessions().size() == 1; })) << "the old one is left";
}

TEST_F(SessionTest, PositionAndWriterAreChecked) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  v1::GenerateRequest request = Turn(id, "hello");
  request.mutable_session()->set_expected_position(1);
  const Collected wrong = Generate(request);
  EXPECT_EQ(wrong.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(wrong.status), "POSITION_DIFFERS");
  EXPECT_EQ(Generate(Turn("nobody", "x")).status.code(), absl::StatusCode::kNotFound);
  verifier.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(50); });
  std::thread writer([&] { Generate(Turn(id, "hello")); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  EXPECT_TRUE(Describe(id)->busy());
  const Collected busy = Generate(Turn(id, "x"));
  EXPECT_EQ(ErrorReason(busy.status), "SESSION_BUSY");
  writer.join();
}

TEST_F(SessionTest, ACancelledTurnLeavesTheSessionAsItWas) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  const uint64_t position = Generate(Turn(id, "hello")).finished->position();
  verifier.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(20); });
  v1::GenerateRequest request = Turn(id, "more");
  request.mutable_stopping()->set_max_tokens(1000);
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_EQ(Collect(context, *reader).status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return !Describe(id)->busy(); }));
  EXPECT_EQ(Describe(id)->position(), position);
  EXPECT_TRUE(Generate(Turn(id, "again")).finished.has_value());
}

TEST_F(SessionTest, OpenListClose) {
  AddVerifier(Saying());
  StartRouter([](Router::Options& options) { options.max_sessions = 3; });
  for (const char* id : {"b", "a", "c"}) OpenSession(id);
  grpc::ClientContext context;
  v1::OpenSessionRequest open;
  open.set_session_id("d");
  v1::Session session;
  absl::Status status = FromGrpc(sessions_->OpenSession(&context, open, &session));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelay(status).has_value());
  v1::ListSessionsRequest list;
  list.set_page_size(2);
  std::string ids;
  do {
    grpc::ClientContext list_context;
    v1::ListSessionsResponse page;
    ASSERT_TRUE(sessions_->ListSessions(&list_context, list, &page).ok());
    for (const auto& each : page.sessions()) ids += each.session_id();
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(ids, "abc");
  EXPECT_TRUE(Close("b").ok());
  EXPECT_EQ(Close("b").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Describe("b").status().code(), absl::StatusCode::kNotFound);
  grpc::ClientContext again;
  open.set_session_id("a");
  status = FromGrpc(sessions_->OpenSession(&again, open, &session));
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(SessionTest, CloseEndsTheLiveRequestAndFreesTheState) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  verifier.Edit([](FakeBehaviour& b) { b.step = absl::Milliseconds(20); });
  Collected all;
  v1::GenerateRequest request = Turn(id, "hello");
  request.mutable_stopping()->set_max_tokens(1000);
  std::thread client([&] { all = Generate(request); });
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 1; }));
  EXPECT_TRUE(Close(id).ok());
  client.join();
  EXPECT_EQ(all.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return verifier.sessions().empty(); }));
}

TEST_F(SessionTest, IdleSessionsExpire) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  grpc::ClientContext context;
  v1::OpenSessionRequest open;
  open.set_session_id("short");
  open.set_idle_timeout_seconds(1);
  v1::Session session;
  ASSERT_TRUE(sessions_->OpenSession(&context, open, &session).ok());
  EXPECT_EQ(session.idle_timeout_seconds(), 1U);
  Generate(Turn("short", "x"));
  EXPECT_EQ(verifier.sessions().size(), 1U);
  EXPECT_TRUE(Eventually([&] { return !Describe("short").ok(); }));
  EXPECT_TRUE(Eventually([&] { return verifier.sessions().empty(); }));
}

TEST_F(SessionTest, AChatTurnIsRenderedAsContinuation) {
  FakeVerifier& verifier = AddVerifier(Saying());
  StartRouter();
  const std::string id = OpenSession().session_id();
  v1::GenerateRequest request;
  request.mutable_session()->set_session_id(id);
  request.mutable_stopping()->set_max_tokens(3);
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::ROLE_USER);
  message.set_content("hi");
  Generate(request);
  Generate(request);
  const auto requests = verifier.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(Inputs(requests[0]), Encode("User: hi\n\nAssistant:").size());
  EXPECT_EQ(Inputs(requests[1]), Encode("\n\nUser: hi\n\nAssistant:").size());
}

}  // namespace
}  // namespace tandem
