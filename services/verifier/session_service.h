#pragma once

#include "common/metrics/metrics_page.h"
#include "services/verifier/serving_gate.h"
#include "tandem/v1/session.grpc.pb.h"

namespace tandem {

// tandem.v1.SessionService over the engine. Nothing blocks.
class SessionService final : public v1::SessionService::CallbackService {
 public:
  // Both must outlive the service.
  SessionService(const ServingGate* gate, MetricsPage* metrics) : gate_(gate), metrics_(metrics) {}

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext* context,
                                        const v1::OpenSessionRequest* request,
                                        v1::Session* response) override;
  grpc::ServerUnaryReactor* DescribeSession(grpc::CallbackServerContext* context,
                                            const v1::DescribeSessionRequest* request,
                                            v1::Session* response) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext* context,
                                         const v1::CloseSessionRequest* request,
                                         v1::CloseSessionResponse* response) override;

 private:
  const ServingGate* const gate_;
  MetricsPage* const metrics_;
};

}  // namespace tandem
