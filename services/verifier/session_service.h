#pragma once

#include <string>

#include "common/metrics/metrics_page.h"
#include "services/verifier/engine.h"
#include "tandem/v1/session.grpc.pb.h"

namespace tandem {

// tandem.v1.SessionService over an engine. Nothing blocks.
class SessionService final : public v1::SessionService::CallbackService {
 public:
  // Both must outlive the service.
  SessionService(Engine* engine, std::string model, MetricsPage* metrics);

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
  // Answers with one session or an error.
  void Answer(grpc::CallbackServerContext* context, const std::string& method,
              const absl::StatusOr<SessionInfo>& session, v1::Session* response) const;

  Engine* const engine_;
  const std::string model_;
  MetricsPage* const metrics_;
};

}  // namespace tandem
