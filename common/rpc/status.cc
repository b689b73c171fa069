#include "common/rpc/status.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/time_util.h"
#include "google/rpc/details.pb.h"

namespace tandem {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/";
constexpr char kDomain[] = "tandem";

template <typename Message>
std::string TypeUrl() {
  return absl::StrCat(kTypePrefix, Message::descriptor()->full_name());
}

template <typename Message>
void SetDetail(absl::Status& status, const Message& message) {
  status.SetPayload(TypeUrl<Message>(), absl::Cord(message.SerializeAsString()));
}

template <typename Message>
absl::optional<Message> GetDetail(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(TypeUrl<Message>());
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return {};
  return message;
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view description) {
  return FieldError(absl::StatusCode::kInvalidArgument, field, description);
}

absl::Status FieldError(absl::StatusCode code, absl::string_view field,
                        absl::string_view description) {
  absl::Status status(code, absl::StrCat(field, ": ", description));
  google::rpc::BadRequest detail;
  auto& violation = *detail.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(std::string(description));
  SetDetail(status, detail);
  return status;
}

absl::Status ReasonError(absl::StatusCode code, absl::string_view reason,
                         absl::string_view message) {
  absl::Status status(code, message);
  SetReason(status, reason);
  return status;
}

absl::Status RetryLaterError(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message, absl::Duration delay) {
  absl::Status status = ReasonError(code, reason, message);
  SetRetryDelay(status, delay);
  return status;
}

void SetReason(absl::Status& status, absl::string_view reason) {
  google::rpc::ErrorInfo detail;
  detail.set_reason(std::string(reason));
  detail.set_domain(kDomain);
  SetDetail(status, detail);
}

void SetRetryDelay(absl::Status& status, absl::Duration delay) {
  google::rpc::RetryInfo detail;
  *detail.mutable_retry_delay() =
      google::protobuf::util::TimeUtil::NanosecondsToDuration(absl::ToInt64Nanoseconds(delay));
  SetDetail(status, detail);
}

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  const auto detail = GetDetail<google::rpc::BadRequest>(status);
  if (!detail.has_value()) return violations;
  for (const auto& violation : detail->field_violations()) {
    violations.push_back({.field = violation.field(), .description = violation.description()});
  }
  return violations;
}

absl::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto detail = GetDetail<google::rpc::RetryInfo>(status);
  if (!detail.has_value()) return {};
  return absl::Nanoseconds(
      google::protobuf::util::TimeUtil::DurationToNanoseconds(detail->retry_delay()));
}

std::string ErrorReason(const absl::Status& status) {
  const auto detail = GetDetail<google::rpc::ErrorInfo>(status);
  return detail.has_value() && !detail->reason().empty() ? detail->reason()
                                                         : CodeName(status.code());
}

std::string CodeName(absl::StatusCode code) {
  std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "UNKNOWN" : name;
}

bool IsRetryable(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kResourceExhausted ||
         code == absl::StatusCode::kAborted;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message(status.message());
  google::rpc::Status details;
  status.ForEachPayload([&details](absl::string_view url, const absl::Cord& payload) {
    auto& any = *details.add_details();
    any.set_type_url(std::string(url));
    any.set_value(std::string(payload));
  });
  if (details.details().empty()) return grpc::Status(code, message);
  details.set_code(static_cast<int>(code));
  details.set_message(message);
  return grpc::Status(code, message, details.SerializeAsString());
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  const bool canonical = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status result(canonical ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      status.error_message());
  google::rpc::Status details;
  if (details.ParseFromString(status.error_details())) {
    for (const auto& any : details.details()) {
      result.SetPayload(any.type_url(), absl::Cord(any.value()));
    }
  }
  return result;
}

}  // namespace tandem
