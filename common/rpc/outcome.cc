#include "common/rpc/outcome.h"

#include <chrono>

#include "absl/strings/strip.h"
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

std::string FinishReasonName(v1::FinishReason reason) {
  return std::string(absl::StripPrefix(v1::FinishReason_Name(reason), "FINISH_REASON_"));
}

void CountGeneration(MetricsPage& page, v1::FinishReason reason) {
  GenerationsTotal(page, FinishReasonName(reason)).Increment();
}

absl::StatusCode CancelledBy(const grpc::CallbackServerContext& context) {
  return context.deadline() <= std::chrono::system_clock::now()
             ? absl::StatusCode::kDeadlineExceeded
             : absl::StatusCode::kCancelled;
}

void UnaryCall::Finish(const absl::Status& status) const {
  AddOutcomeTrailer(*context_, status.code());
  CountOutcome(*page_, method_, status.code());
  reactor_->Finish(ToGrpc(status));
}

grpc::ServerUnaryReactor* FinishUnary(grpc::CallbackServerContext& context, MetricsPage& page,
                                      const std::string& method, const absl::Status& status) {
  const UnaryCall call(&context, &page, method);
  call.Finish(status);
  return call.reactor();
}

}  // namespace tandem
