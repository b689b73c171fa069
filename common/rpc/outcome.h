#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/metrics/metrics_page.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace tandem {

// Trailer `tandem-outcome`; before the call is finished.
void AddOutcomeTrailer(grpc::CallbackServerContext& context, absl::StatusCode outcome);

// tandem_requests_total{method,outcome}.
void CountOutcome(MetricsPage& page, const std::string& method, absl::StatusCode outcome);

// DEADLINE_EXCEEDED when the call's deadline is over, else CANCELLED: why a call was cancelled.
absl::StatusCode CancelledBy(const grpc::CallbackServerContext& context);

// Ends a unary call: trailer, metric, status with its details. Returns the call's reactor, so that
// a handler can be one expression.
grpc::ServerUnaryReactor* FinishUnary(grpc::CallbackServerContext& context, MetricsPage& page,
                                      const std::string& method, const absl::Status& status);

}  // namespace tandem
