#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/status.h"
#include "grpcpp/client_context.h"

namespace tandem {

// Calls `(stub->*method)(context, request, response, done)` of an async stub. `done` runs on a gRPC
// thread, once, with the status and the response.
template <typename Stub, typename Request, typename Response>
void CallUnary(Stub* stub,
               void (Stub::*method)(grpc::ClientContext*, const Request*, Response*,
                                    std::function<void(grpc::Status)>),
               Request request, absl::Duration timeout,
               std::function<void(const absl::Status&, const Response&)> done) {
  struct Call {
    grpc::ClientContext context;
    Request request;
    Response response;
  };
  auto call = std::make_shared<Call>();
  call->context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  call->request = std::move(request);
  (stub->*method)(&call->context, &call->request, &call->response,
                  [call, done = std::move(done)](const grpc::Status& status) {
                    done(FromGrpc(status), call->response);
                  });
}

}  // namespace tandem
