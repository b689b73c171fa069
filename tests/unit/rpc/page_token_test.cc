#include "common/rpc/page_token.h"

#include <gtest/gtest.h>

#include <string>

#include "common/rpc/status.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

v1::ListSessionsRequest Request(const std::string& token) {
  v1::ListSessionsRequest request;
  request.set_page_token(token);
  return request;
}

TEST(PageToken, LeadsBehindTheLastId) {
  for (const std::string id : {"a", "x:1", "0123456789abcdef0123456789abcdef"}) {
    EXPECT_EQ(*PageStart(Request(PageTokenAfter(id))), id);
    EXPECT_TRUE(ValidateListSessions(Request(PageTokenAfter(id))).ok());
  }
}

TEST(PageToken, AbsentAndEmptyBeginAtTheStart) {
  EXPECT_EQ(*PageStart({}), "");
  EXPECT_EQ(*PageStart(Request("")), "");
}

TEST(PageToken, AnythingElseIsRefusedByName) {
  std::string changed = PageTokenAfter("chat");
  changed.back() = 'x';
  for (const std::string& token :
       {std::string("garbage"), std::string("a"), std::string(16, '0'), std::string(40, '0'),
        PageTokenAfter("").substr(0, 16), std::string("0123456789abcdefchat"), changed}) {
    const absl::Status status = ValidateListSessions(Request(token));
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << token;
    EXPECT_EQ(FieldViolations(status)[0].field, "page_token");
  }
}

}  // namespace
}  // namespace tandem
