#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/metrics/metrics_page.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// Trailer `tandem-outcome`; before the call is finished.
void AddOutcomeTrailer(grpc::CallbackServerContext& context, absl::StatusCode outcome);

// tandem_requests_total{method,outcome}.
void CountOutcome(MetricsPage& page, const std::string& method, absl::StatusCode outcome);

// "STOP_TOKEN", "STOP_TEXT", "MAX_TOKENS".
std::string FinishReasonName(v1::FinishReason reason);

// tandem_generations_total{finish_reason}.
void CountGeneration(MetricsPage& page, v1::FinishReason reason);

// DEADLINE_EXCEEDED when the call's deadline is over, else CANCELLED: why a call was cancelled.
absl::StatusCode CancelledBy(const grpc::CallbackServerContext& context);

// A unary call that is answered later, from any thread and exactly once. A value: copies mean the
// same call, whose default reactor gRPC hands out only once.
class UnaryCall final {
 public:
  UnaryCall(grpc::CallbackServerContext* context, MetricsPage* page, std::string method)
      : context_(context),
        page_(page),
        method_(std::move(method)),
        reactor_(context->DefaultReactor()) {}

  // What the handler returns.
  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  // Trailer, metric, status with its details.
  void Finish(const absl::Status& status) const;

 private:
  grpc::CallbackServerContext* context_;
  MetricsPage* page_;
  std::string method_;
  grpc::ServerUnaryReactor* reactor_;
};

// A unary call that is answered at once. Returns its reactor, so that a handler can be one
// expression.
grpc::ServerUnaryReactor* FinishUnary(grpc::CallbackServerContext& context, MetricsPage& page,
                                      const std::string& method, const absl::Status& status);

}  // namespace tandem
