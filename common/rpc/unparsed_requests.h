#pragma once

#include <memory>

#include "common/metrics/metrics_page.h"
#include "grpcpp/support/server_interceptor.h"

namespace tandem {

// gRPC answers a request whose bytes do not parse (a string field that is not UTF-8, too) with
// UNIMPLEMENTED and no message before any handler sees it. With this factory the client gets
// INVALID_ARGUMENT and the reason, and the call counts in tandem_requests_total. Only for methods
// with one request message. `page` may be null: not counted; else it outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> ExplainUnparsedRequests(
    MetricsPage* page);

}  // namespace tandem
