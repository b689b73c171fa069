#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tandem/v1/session.pb.h"

namespace tandem {

// The token of a page that ended with this session id: opaque to clients, the same at every server.
std::string PageTokenAfter(absl::string_view last_id);

// The id that the page begins after; empty where the request begins at the start. INVALID_ARGUMENT
// naming page_token for what no server gave out.
absl::StatusOr<std::string> PageStart(const v1::ListSessionsRequest& request);

// Sessions on a page: the request's number or its default.
int PageSize(const v1::ListSessionsRequest& request);

}  // namespace tandem
