#pragma once

#include "services/router/generation_service.h"
#include "tandem/v1/session.grpc.pb.h"

namespace tandem {

// The public SessionService over the router's table.
class RouterSessionService final : public v1::SessionService::CallbackService {
 public:
  explicit RouterSessionService(const RouterParts& parts) : parts_(parts) {}

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
  absl::Status Open(const v1::OpenSessionRequest& request, v1::Session& session) const;
  absl::Status Describe(const v1::DescribeSessionRequest& request, v1::Session& session) const;
  absl::Status List(const v1::ListSessionsRequest& request,
                    v1::ListSessionsResponse& response) const;

  const RouterParts parts_;
};

}  // namespace tandem
