#include "services/router/session_service.h"

#include "common/base/status_macros.h"
#include "common/rpc/outcome.h"
#include "common/rpc/page_token.h"
#include "common/rpc/validate.h"

namespace tandem {

absl::Status RouterSessionService::Open(const v1::OpenSessionRequest& request,
                                        v1::Session& session) const {
  RETURN_IF_ERROR(ValidateOpenSession(request));
  if (request.has_router_id()) {
    return absl::UnimplementedError("router_id is for verifiers; a router's sessions are its own");
  }
  ASSIGN_OR_RETURN(const auto served, parts_.pool->Served());
  ASSIGN_OR_RETURN(
      session, parts_.sessions->Open(request, served->model.name(), parts_.pool->SessionRoom()));
  return absl::OkStatus();
}

absl::Status RouterSessionService::Describe(const v1::DescribeSessionRequest& request,
                                            v1::Session& session) const {
  RETURN_IF_ERROR(ValidateDescribeSession(request));
  ASSIGN_OR_RETURN(const auto served, parts_.pool->Served());
  ASSIGN_OR_RETURN(session, parts_.sessions->Describe(request.session_id(), served->model.name()));
  return absl::OkStatus();
}

absl::Status RouterSessionService::List(const v1::ListSessionsRequest& request,
                                        v1::ListSessionsResponse& response) const {
  RETURN_IF_ERROR(ValidateListSessions(request));
  ASSIGN_OR_RETURN(const auto served, parts_.pool->Served());
  ASSIGN_OR_RETURN(const std::string after, PageStart(request));
  response = parts_.sessions->List(after, PageSize(request), served->model.name());
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* RouterSessionService::OpenSession(grpc::CallbackServerContext* context,
                                                            const v1::OpenSessionRequest* request,
                                                            v1::Session* response) {
  return FinishUnary(*context, *parts_.page, "OpenSession", Open(*request, *response));
}

grpc::ServerUnaryReactor* RouterSessionService::DescribeSession(
    grpc::CallbackServerContext* context, const v1::DescribeSessionRequest* request,
    v1::Session* response) {
  return FinishUnary(*context, *parts_.page, "DescribeSession", Describe(*request, *response));
}

grpc::ServerUnaryReactor* RouterSessionService::ListSessions(grpc::CallbackServerContext* context,
                                                             const v1::ListSessionsRequest* request,
                                                             v1::ListSessionsResponse* response) {
  return FinishUnary(*context, *parts_.page, "ListSessions", List(*request, *response));
}

grpc::ServerUnaryReactor* RouterSessionService::CloseSession(grpc::CallbackServerContext* context,
                                                             const v1::CloseSessionRequest* request,
                                                             v1::CloseSessionResponse*) {
  absl::Status status = ValidateCloseSession(*request);
  if (status.ok()) status = parts_.sessions->Close(request->session_id());
  return FinishUnary(*context, *parts_.page, "CloseSession", status);
}

}  // namespace tandem
