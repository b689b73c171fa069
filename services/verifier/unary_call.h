#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace tandem {

// A unary call that is answered later, from any thread and exactly once. A value: copies mean the
// same call, whose default reactor gRPC hands out only once.
class UnaryCall final {
 public:
  UnaryCall(grpc::CallbackServerContext* context, MetricsPage* metrics, std::string method)
      : context_(context),
        metrics_(metrics),
        method_(std::move(method)),
        reactor_(context->DefaultReactor()) {}

  // What the handler returns.
  grpc::ServerUnaryReactor* reactor() const { return reactor_; }

  void Finish(const absl::Status& status) const {
    AddOutcomeTrailer(*context_, status.code());
    CountOutcome(*metrics_, method_, status.code());
    reactor_->Finish(ToGrpc(status));
  }

 private:
  grpc::CallbackServerContext* context_;
  MetricsPage* metrics_;
  std::string method_;
  grpc::ServerUnaryReactor* reactor_;
};

}  // namespace tandem
