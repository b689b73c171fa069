// What OpenSession promises of the verifiers behind the router.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/rpc/status.h"
#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

class SessionRoomTest : public RouterHarness {
 protected:
  FakeVerifier& AddWithRoom(uint32_t max_sessions) {
    FakeBehaviour behaviour = {.script = Encode("alpha beta gamma delta")};
    behaviour.max_sessions = max_sessions;
    return AddVerifier(behaviour);
  }
  absl::Status Open(const std::string& id, const std::string& router_id = "") {
    grpc::ClientContext context;
    v1::OpenSessionRequest request;
    request.set_session_id(id);
    if (!router_id.empty()) request.set_router_id(router_id);
    v1::Session session;
    return FromGrpc(sessions_->OpenSession(&context, request, &session));
  }
  absl::Status Close(const std::string& id) {
    grpc::ClientContext context;
    v1::CloseSessionRequest request;
    request.set_session_id(id);
    v1::CloseSessionResponse response;
    return FromGrpc(sessions_->CloseSession(&context, request, &response));
  }
  // Until exactly `count` more sessions can be opened: reports of the load come some time after
  // what they count.
  bool RoomBecomes(int count) {
    return Eventually([&] {
      int opened = 0;
      while (opened <= count && Open(absl::StrCat("probe", opened)).ok()) ++opened;
      for (int i = 0; i < opened; ++i) EXPECT_TRUE(Close(absl::StrCat("probe", i)).ok());
      return opened == count;
    });
  }
  Collected Turn(const std::string& id) {
    v1::GenerateRequest request = TextRequest("hello", 2);
    request.mutable_session()->set_session_id(id);
    return Generate(request);
  }
};

TEST_F(SessionRoomTest, BeyondTheVerifiersLimitIsRefusedAtOnce) {
  FakeVerifier& verifier = AddWithRoom(2);
  StartRouter();
  EXPECT_TRUE(Open("a").ok());
  EXPECT_TRUE(Open("b").ok());
  for (int placed = 0; placed <= 2; ++placed) {
    EXPECT_TRUE(RoomBecomes(0)) << placed;
    const absl::Status refused = Open("c");
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << placed;
    EXPECT_EQ(ErrorReason(refused), "SESSIONS_FULL");
    EXPECT_TRUE(RetryDelay(refused).has_value());
    if (placed == 2) break;
    const Collected all = Turn(placed == 0 ? "a" : "b");
    EXPECT_TRUE(all.finished.has_value()) << all.status;
    EXPECT_EQ(verifier.sessions().size(), placed + 1U);
  }
  EXPECT_TRUE(Close("a").ok());
  EXPECT_TRUE(Eventually([&] { return Open("c").ok(); }));
}

TEST_F(SessionRoomTest, APlacedSessionTakesRoomBeforeTheNextReport) {
  AddWithRoom(1);
  StartRouter();
  EXPECT_TRUE(RoomBecomes(1));
  EXPECT_TRUE(Open("a").ok());
  EXPECT_TRUE(Turn("a").finished.has_value());
  EXPECT_EQ(Open("b").code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SessionRoomTest, EveryVerifiersRoomIsUsed) {
  AddWithRoom(1);
  AddWithRoom(0);
  AddWithRoom(1);
  StartRouter();
  int room = 2;
  for (const char* id : {"a", "b"}) {
    EXPECT_TRUE(RoomBecomes(room)) << id;
    EXPECT_TRUE(Open(id).ok()) << id;
    const Collected all = Turn(id);
    EXPECT_TRUE(all.finished.has_value()) << all.status;
    --room;
  }
  EXPECT_TRUE(RoomBecomes(0));
  EXPECT_EQ(Open("c").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(verifiers_[0]->sessions().size(), 1U);
  EXPECT_EQ(verifiers_[2]->sessions().size(), 1U);
}

TEST_F(SessionRoomTest, StreamsAndSessionsCarryTheRoutersIncarnation) {
  FakeVerifier& verifier = AddWithRoom(5);
  StartRouter();
  ASSERT_TRUE(Open("a").ok());
  ASSERT_TRUE(Turn("a").finished.has_value());
  EXPECT_EQ(verifier.router_ids().size(), 1U) << "one id for both";
  EXPECT_FALSE(verifier.router_ids().begin()->empty());
  router_.reset();
  StartRouter();
  EXPECT_EQ(verifier.router_ids().size(), 2U) << "a new one for every start";
  EXPECT_EQ(Open("b", "me").code(), absl::StatusCode::kUnimplemented);
}

TEST_F(SessionRoomTest, APageTokenOfNobodyIsRefused) {
  AddWithRoom(5);
  StartRouter();
  grpc::ClientContext context;
  v1::ListSessionsRequest request;
  request.set_page_token("garbage");
  v1::ListSessionsResponse response;
  const absl::Status status = FromGrpc(sessions_->ListSessions(&context, request, &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldViolations(status)[0].field, "page_token");
}

}  // namespace
}  // namespace tandem
