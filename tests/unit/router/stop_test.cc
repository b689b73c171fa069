#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/router/router_harness.h"

namespace tandem {
namespace {

// Stop texts through the whole router. Token ids of single bytes are used so that a stop can end
// at every place of a round.
std::vector<uint32_t> ByteIds(const std::string& text) {
  std::vector<uint32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c) + 1U);
  return ids;
}

class StopTest : public RouterHarness {
 protected:
  FakeVerifier& Start(const std::string& text, std::vector<int> rounds = {4}) {
    FakeBehaviour behaviour = {.script = ByteIds(text), .rounds = std::move(rounds)};
    behaviour.script.resize(behaviour.script.size() + 4000, 'z' + 1);
    FakeVerifier& verifier = AddVerifier(behaviour);
    StartRouter();
    return verifier;
  }
};

TEST_F(StopTest, EveryOffsetOfTheRound) {
  FakeVerifier& verifier = Start("");
  for (size_t before = 0; before < 9; ++before) {
    const std::string head(before, 'a');
    verifier.Edit([&](FakeBehaviour& behaviour) {
      behaviour.script = ByteIds(head + "STOPmore text behind it");
      behaviour.script.resize(5000, 'z' + 1);
    });
    v1::GenerateRequest request = TextRequest("p", 4000);
    request.mutable_stopping()->add_stop_texts("never");
    request.mutable_stopping()->add_stop_texts("STOP");
    const Collected all = Generate(request);
    ASSERT_TRUE(all.finished.has_value()) << all.status;
    EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TEXT);
    EXPECT_EQ(all.finished->stop_text(), "STOP");
    EXPECT_EQ(all.output.text(), head);
    EXPECT_EQ(all.ids(), ByteIds(head));
    EXPECT_EQ(all.finished->usage().generated_tokens(), before);
    EXPECT_EQ(all.finished->position(), 1 + before);
    EXPECT_EQ(all.after_terminal, 0);
  }
  // The verifier was told each time, and runs nothing any more.
  EXPECT_TRUE(Eventually([&] { return verifier.running() == 0; }));
  EXPECT_GT(Metric("tandem_trimmed_tokens_total"), 0);
}

// C08: a limit inside the same round does not hide an earlier stop, nor the other way round.
TEST_F(StopTest, TheFirstTerminalConditionWins) {
  Start("abSTOPcdef", {10});
  v1::GenerateRequest request = TextRequest("p", 8);
  request.mutable_stopping()->add_stop_texts("STOP");
  Collected all = Generate(request);
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TEXT);
  EXPECT_EQ(all.output.text(), "ab");
  request.mutable_stopping()->set_max_tokens(5);
  all = Generate(request);
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_MAX_TOKENS);
  EXPECT_EQ(all.output.text(), "abSTO");
  EXPECT_EQ(all.ids(), ByteIds("abSTO"));
}

TEST_F(StopTest, AStopTokenBehindAPossibleStopTextReleasesIt) {
  Start("abSTO\x01");
  v1::GenerateRequest request = TextRequest("p", 100);
  request.mutable_stopping()->add_stop_texts("STOP");
  request.mutable_stopping()->add_stop_token_ids(2);  // byte 1
  const Collected all = Generate(request);
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(all.finished->stop_token_id(), 2U);
  EXPECT_EQ(all.output.text(), "abSTO");
  EXPECT_EQ(all.finished->usage().generated_tokens(), 5U);
}

TEST_F(StopTest, IncludedStops) {
  Start("abSTOPcd\x01");
  v1::GenerateRequest request = TextRequest("p", 100);
  request.mutable_stopping()->add_stop_texts("STOP");
  request.mutable_stopping()->set_include_stop_in_output(true);
  EXPECT_EQ(Generate(request).output.text(), "abSTOP");
  request.mutable_stopping()->clear_stop_texts();
  request.mutable_stopping()->add_stop_token_ids(2);
  const Collected all = Generate(request);
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(all.ids().back(), 2U);
}

TEST_F(StopTest, AChatStopsAtTheNextTurn) {
  Start(" Fine.\nUser: and you?", {3, 1});
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role(v1::ROLE_USER);
  message.set_content("How are you?");
  const Collected all = Generate(request);
  EXPECT_EQ(all.output.text(), "Fine.");
  EXPECT_EQ(all.finished->stop_text(), "\nUser:");
  EXPECT_EQ(all.ids(), ByteIds(" Fine."));
}

// The session stands exactly behind the last kept token, at the verifier and at the router.
TEST_F(StopTest, ASessionIsSetToTheRetainedPosition) {
  FakeVerifier& verifier = Start("abcSTOPdef", {5});
  const std::string id = OpenSession().session_id();
  v1::GenerateRequest request = TextRequest("p", 4000);
  request.mutable_session()->set_session_id(id);
  request.mutable_stopping()->add_stop_texts("STOP");
  for (int turn = 1; turn <= 2; ++turn) {
    request.mutable_session()->set_expected_position((turn - 1) * 4);
    const Collected all = Generate(request);
    ASSERT_TRUE(all.finished.has_value()) << all.status;
    EXPECT_EQ(all.finished->position(), turn * 4U);
    const auto held = verifier.sessions();
    ASSERT_EQ(held.size(), 1U);
    EXPECT_EQ(held.begin()->second.size(), turn * 4U);
  }
}

// The verifier finished by itself in the same round; the cut still reaches it.
TEST_F(StopTest, ASessionIsCutAfterTheVerifierFinished) {
  FakeVerifier& verifier = Start("abSTOP", {6});
  const std::string id = OpenSession().session_id();
  v1::GenerateRequest request = TextRequest("p", 6);
  request.mutable_session()->set_session_id(id);
  request.mutable_stopping()->add_stop_texts("STOP");
  const Collected all = Generate(request);
  EXPECT_EQ(all.finished->reason(), v1::FINISH_REASON_STOP_TEXT);
  EXPECT_EQ(all.finished->position(), 3U);
  EXPECT_EQ(verifier.sessions().begin()->second.size(), 3U);
}

}  // namespace
}  // namespace tandem
