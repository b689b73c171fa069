#include "services/verifier/session_service.h"

#include <utility>

#include "common/rpc/outcome.h"
#include "common/rpc/page_token.h"
#include "common/rpc/status.h"
#include "common/rpc/timestamp.h"
#include "common/rpc/validate.h"

namespace tandem {
namespace {

void Fill(const SessionInfo& info, const std::string& model, v1::Session* out) {
  out->set_session_id(info.id);
  out->set_model(model);
  out->set_position(static_cast<uint64_t>(info.position));
  out->set_busy(info.busy);
  *out->mutable_opened_at() = ToTimestamp(info.opened_at);
  *out->mutable_last_used_at() = ToTimestamp(info.last_used_at);
  out->set_idle_timeout_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(info.idle_timeout)));
  out->set_resident(info.resident);
}

// The engine's errors name no retry of their own.
absl::Status WithRetry(absl::Status status) {
  if (IsRetryable(status.code())) SetRetryDelay(status, absl::Seconds(1));
  return status;
}

}  // namespace

grpc::ServerUnaryReactor* SessionService::OpenSession(grpc::CallbackServerContext* context,
                                                      const v1::OpenSessionRequest* request,
                                                      v1::Session* response) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateOpenSession(*request) : parts.status();
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "OpenSession", valid);
  const absl::Duration idle_timeout =
      absl::Seconds(request->has_idle_timeout_seconds() ? request->idle_timeout_seconds()
                                                        : kDefaultIdleTimeoutSeconds);
  const UnaryCall call(context, metrics_, "OpenSession");
  (*parts)->engine->OpenSession(
      {.id = request->session_id(),
       .idle_timeout = idle_timeout,
       .router_id = request->router_id()},
      [parts = *parts, call, response](const absl::StatusOr<SessionInfo>& session) {
        if (session.ok()) Fill(*session, parts->model->name, response);
        call.Finish(WithRetry(session.status()));
      });
  return call.reactor();
}

grpc::ServerUnaryReactor* SessionService::DescribeSession(grpc::CallbackServerContext* context,
                                                          const v1::DescribeSessionRequest* request,
                                                          v1::Session* response) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateDescribeSession(*request) : parts.status();
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "DescribeSession", valid);
  const UnaryCall call(context, metrics_, "DescribeSession");
  (*parts)->engine->DescribeSession(
      request->session_id(),
      [parts = *parts, call, response](const absl::StatusOr<SessionInfo>& session) {
        if (session.ok()) Fill(*session, parts->model->name, response);
        call.Finish(session.status());
      });
  return call.reactor();
}

grpc::ServerUnaryReactor* SessionService::ListSessions(grpc::CallbackServerContext* context,
                                                       const v1::ListSessionsRequest* request,
                                                       v1::ListSessionsResponse* response) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateListSessions(*request) : parts.status();
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "ListSessions", valid);
  const int size = PageSize(*request);
  const UnaryCall call(context, metrics_, "ListSessions");
  // One more than a page tells whether there is another.
  (*parts)->engine->ListSessions(
      *PageStart(*request), size + 1,
      [parts = *parts, call, response, size](std::vector<SessionInfo> sessions) {
        const bool more = static_cast<int>(sessions.size()) > size;
        if (more) sessions.resize(size);
        for (const SessionInfo& info : sessions) {
          Fill(info, parts->model->name, response->add_sessions());
        }
        if (more) response->set_next_page_token(PageTokenAfter(sessions.back().id));
        call.Finish(absl::OkStatus());
      });
  return call.reactor();
}

grpc::ServerUnaryReactor* SessionService::CloseSession(grpc::CallbackServerContext* context,
                                                       const v1::CloseSessionRequest* request,
                                                       v1::CloseSessionResponse*) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateCloseSession(*request) : parts.status();
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "CloseSession", valid);
  const UnaryCall call(context, metrics_, "CloseSession");
  (*parts)->engine->CloseSession(request->session_id(),
                                 [call](const absl::Status& status) { call.Finish(status); });
  return call.reactor();
}

}  // namespace tandem
