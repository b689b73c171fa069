#include "common/rpc/outcome.h"

#include <chrono>

#include "common/metrics/metrics.h"
#include "common/rpc/metadata.h"
#include "common/rpc/status.h"

namespace tandem {

void AddOutcomeTrailer(grpc::CallbackServerContext& context, absl::StatusCode outcome) {
  context.AddTrailingMetadata(kOutcomeTrailer, CodeName(outcome));
}

void CountOutcome(MetricsPage& page, const std::string& method, absl::StatusCode outcome) {
  RequestsTotal(page, method, CodeName(outcome)).Increment();
}

absl::StatusCode CancelledBy(const grpc::CallbackServerContext& context) {
  return context.deadline() <= std::chrono::system_clock::now()
             ? absl::StatusCode::kDeadlineExceeded
             : absl::StatusCode::kCancelled;
}

grpc::ServerUnaryReactor* FinishUnary(grpc::CallbackServerContext& context, MetricsPage& page,
                                      const std::string& method, const absl::Status& status) {
  AddOutcomeTrailer(context, status.code());
  CountOutcome(page, method, status.code());
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

}  // namespace tandem
