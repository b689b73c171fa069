#include "common/rpc/metadata.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

constexpr char kTraceParent[] = "traceparent";
constexpr char kTraceState[] = "tracestate";
constexpr char kAuthorization[] = "authorization";
constexpr size_t kMaxTraceState = 512;

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// The one value of `key`, if there is one.
absl::StatusOr<std::optional<absl::string_view>> Single(const Metadata& metadata, const char* key) {
  const auto [begin, end] = metadata.equal_range(key);
  if (begin == end) return std::nullopt;
  if (std::next(begin) != end) return FieldError(key, "metadata may be sent once only");
  return absl::string_view(begin->second.data(), begin->second.size());
}

// <2 hex>-<32 hex>-<16 hex>-<2 hex>, lower case; version ff and all-zero ids are invalid.
bool IsTraceParent(absl::string_view text) {
  constexpr absl::string_view kShape = "00-00000000000000000000000000000000-0000000000000000-00";
  if (text.size() != kShape.size()) return false;
  for (size_t i = 0; i < kShape.size(); ++i) {
    const bool fits = kShape[i] == '-'
                          ? text[i] == '-'
                          : absl::ascii_isdigit(text[i]) || (text[i] >= 'a' && text[i] <= 'f');
    if (!fits) return false;
  }
  return text.substr(0, 2) != "ff" && text.substr(3, 32) != kShape.substr(3, 32) &&
         text.substr(36, 16) != kShape.substr(36, 16);
}

absl::StatusOr<int32_t> Priority(const Metadata& metadata) {
  ASSIGN_OR_RETURN(const auto priority, Single(metadata, kPriorityMetadata));
  int32_t value = 0;
  if (!priority.has_value()) return value;
  if (absl::SimpleAtoi(*priority, &value) && value >= -kPriorityLimit && value <= kPriorityLimit) {
    return value;
  }
  return FieldError(kPriorityMetadata, absl::StrCat("'", *priority, "' is not a number from ",
                                                    -kPriorityLimit, " to ", kPriorityLimit));
}

}  // namespace

absl::StatusOr<RequestMetadata> ParseMetadata(const Metadata& metadata,
                                              const v1::GenerateRequest& request) {
  RequestMetadata result;
  if (request.has_priority()) {
    result.priority = request.priority();
  } else {
    ASSIGN_OR_RETURN(result.priority, Priority(metadata));
  }
  ASSIGN_OR_RETURN(const auto parent, Single(metadata, kTraceParent));
  if (parent.has_value() && !IsTraceParent(*parent)) {
    return FieldError(kTraceParent, "is not version-trace-parent-flags in lower-case hex");
  }
  result.traceparent = std::string(parent.value_or(""));
  ASSIGN_OR_RETURN(const auto state, Single(metadata, kTraceState));
  result.tracestate = std::string(state.value_or(""));
  if (result.tracestate.size() > kMaxTraceState) {
    return FieldError(kTraceState, absl::StrCat("has ", result.tracestate.size(),
                                                " bytes, at most ", kMaxTraceState, " are taken"));
  }
  ASSIGN_OR_RETURN(const auto authorization, Single(metadata, kAuthorization));
  if (authorization.has_value() && authorization->empty()) {
    return FieldError(kAuthorization, "is empty");
  }
  return result;
}

void Propagate(const RequestMetadata& metadata, grpc::ClientContext& context) {
  if (!metadata.traceparent.empty()) context.AddMetadata(kTraceParent, metadata.traceparent);
  if (!metadata.tracestate.empty()) context.AddMetadata(kTraceState, metadata.tracestate);
}

}  // namespace tandem
