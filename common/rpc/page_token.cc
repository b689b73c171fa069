#include "common/rpc/page_token.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/rpc/status.h"

namespace tandem {
namespace {

constexpr size_t kHashDigits = 16;
constexpr int kDefaultPageSize = 100;

}  // namespace

// The hash in front tells a token from any other text.
std::string PageTokenAfter(absl::string_view last_id) {
  Hasher hasher;
  hasher.Update(last_id);
  return absl::StrCat(HashHex(hasher.Digest()), last_id);
}

absl::StatusOr<std::string> PageStart(const v1::ListSessionsRequest& request) {
  const std::string& token = request.page_token();
  if (token.empty()) return std::string();
  const std::string last_id = token.substr(std::min(token.size(), kHashDigits));
  if (last_id.empty() || token != PageTokenAfter(last_id)) {
    return FieldError("page_token", "is not the next_page_token of an earlier response");
  }
  return last_id;
}

int PageSize(const v1::ListSessionsRequest& request) {
  return request.has_page_size() ? static_cast<int>(request.page_size()) : kDefaultPageSize;
}

}  // namespace tandem
