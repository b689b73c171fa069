#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "grpcpp/support/status.h"

namespace tandem {

// Details travel as payloads of an absl::Status and, between processes, as google.rpc messages in
// `grpc-status-details-bin`; ToGrpc and FromGrpc keep them.

struct FieldViolation {
  std::string field;  // path as in the proto, e.g. "sampling.top_p"
  std::string description;
};

// INVALID_ARGUMENT "<field>: <description>" with a BadRequest that names the field.
absl::Status FieldError(absl::string_view field, absl::string_view description);
// As FieldError, for a field whose range has a code of its own (OUT_OF_RANGE, NOT_FOUND).
absl::Status FieldError(absl::StatusCode code, absl::string_view field,
                        absl::string_view description);
// An error with ErrorInfo: `reason` is a stable upper-case word.
absl::Status ReasonError(absl::StatusCode code, absl::string_view reason,
                         absl::string_view message);
// RESOURCE_EXHAUSTED or UNAVAILABLE with ErrorInfo and RetryInfo.
absl::Status RetryLaterError(absl::StatusCode code, absl::string_view reason,
                             absl::string_view message, absl::Duration delay);

void SetReason(absl::Status& status, absl::string_view reason);
void SetRetryDelay(absl::Status& status, absl::Duration delay);

// Empty where there are none.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);
// Absent without RetryInfo.
absl::optional<absl::Duration> RetryDelay(const absl::Status& status);
// The reason of ErrorInfo; without one the name of the code.
std::string ErrorReason(const absl::Status& status);

// "OK", "INVALID_ARGUMENT", ...: the value of the trailer `tandem-outcome` and of metric labels.
std::string CodeName(absl::StatusCode code);
// True for what a client may simply send again: UNAVAILABLE, RESOURCE_EXHAUSTED, ABORTED.
bool IsRetryable(absl::StatusCode code);

// Code, message and details are kept; a code outside the canonical ones becomes UNKNOWN.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace tandem
