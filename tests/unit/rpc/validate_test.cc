#include "common/rpc/validate.h"

#include <gtest/gtest.h>

#include <string>

#include "common/rpc/status.h"

namespace tandem {
namespace {

const RequestLimits kLimits = {.vocabulary_size = 100, .max_prompt_bytes = 10};

std::string Field(const absl::Status& status) {
  const auto violations = FieldViolations(status);
  return violations.empty() ? "" : violations[0].field;
}

TEST(Validate, Tokenize) {
  v1::TokenizeRequest request;
  EXPECT_EQ(Field(ValidateTokenize(request, kLimits)), "input");
  request.set_text("");
  EXPECT_TRUE(ValidateTokenize(request, kLimits).ok());
  request.set_text(std::string(11, 'x'));
  EXPECT_EQ(ValidateTokenize(request, kLimits).code(), absl::StatusCode::kOutOfRange);
  request.set_text_utf8(std::string(11, 'x'));
  EXPECT_EQ(Field(ValidateTokenize(request, kLimits)), "text_utf8");
  request.mutable_chat()->add_messages();
  EXPECT_EQ(Field(ValidateTokenize(request, kLimits)), "chat.messages[0].role");
}

TEST(Validate, Detokenize) {
  v1::DetokenizeRequest request;
  request.add_ids(99);
  EXPECT_TRUE(ValidateDetokenize(request, kLimits).ok());
  request.add_ids(100);
  EXPECT_EQ(Field(ValidateDetokenize(request, kLimits)), "ids[1]");
}

TEST(Validate, Sessions) {
  v1::OpenSessionRequest open;
  EXPECT_TRUE(ValidateOpenSession(open).ok());
  for (const uint32_t bad : {0U, 86401U}) {
    open.set_idle_timeout_seconds(bad);
    EXPECT_EQ(Field(ValidateOpenSession(open)), "idle_timeout_seconds");
  }
  for (const uint32_t good : {1U, 86400U}) {
    open.set_idle_timeout_seconds(good);
    EXPECT_TRUE(ValidateOpenSession(open).ok());
  }
  for (const std::string& bad : {std::string(), std::string(129, 'a'), std::string("a/b")}) {
    open.set_session_id(bad);
    EXPECT_EQ(Field(ValidateOpenSession(open)), "session_id");
    v1::DescribeSessionRequest describe;
    describe.set_session_id(bad);
    EXPECT_EQ(Field(ValidateDescribeSession(describe)), "session_id");
    v1::CloseSessionRequest close;
    close.set_session_id(bad);
    EXPECT_EQ(Field(ValidateCloseSession(close)), "session_id");
  }
}

TEST(Validate, ListSessions) {
  v1::ListSessionsRequest request;
  EXPECT_TRUE(ValidateListSessions(request).ok());
  for (const uint32_t bad : {0U, 1001U}) {
    request.set_page_size(bad);
    EXPECT_EQ(Field(ValidateListSessions(request)), "page_size");
  }
  request.set_page_size(1000);
  request.set_page_token("no/token");
  EXPECT_EQ(Field(ValidateListSessions(request)), "page_token");
  request.set_page_token("");
  EXPECT_TRUE(ValidateListSessions(request).ok());
}

TEST(Validate, CancelAndDrain) {
  v1::CancelRequest cancel;
  EXPECT_EQ(Field(ValidateCancel(cancel)), "request_id");
  cancel.set_request_id("r1");
  EXPECT_TRUE(ValidateCancel(cancel).ok());
  v1::DrainRequest drain;
  EXPECT_TRUE(ValidateDrain(drain).ok());
  drain.set_timeout_seconds(3601);
  EXPECT_EQ(Field(ValidateDrain(drain)), "timeout_seconds");
  drain.set_timeout_seconds(0);
  EXPECT_TRUE(ValidateDrain(drain).ok());
}

}  // namespace
}  // namespace tandem
