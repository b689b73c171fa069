#include "services/verifier/session_service.h"

#include <utility>

#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "common/rpc/validate.h"
#include "google/protobuf/util/time_util.h"

namespace tandem {
namespace {

google::protobuf::Timestamp ToTimestamp(absl::Time time) {
  return google::protobuf::util::TimeUtil::NanosecondsToTimestamp(absl::ToUnixNanos(time));
}

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

SessionService::SessionService(Engine* engine, std::string model, MetricsPage* metrics)
    : engine_(engine), model_(std::move(model)), metrics_(metrics) {}

void SessionService::Answer(grpc::CallbackServerContext* context, const std::string& method,
                            const absl::StatusOr<SessionInfo>& session,
                            v1::Session* response) const {
  if (session.ok()) Fill(*session, model_, response);
  FinishUnary(*context, *metrics_, method, WithRetry(session.status()));
}

grpc::ServerUnaryReactor* SessionService::OpenSession(grpc::CallbackServerContext* context,
                                                      const v1::OpenSessionRequest* request,
                                                      v1::Session* response) {
  const absl::Status valid = ValidateOpenSession(*request);
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "OpenSession", valid);
  const absl::Duration idle_timeout =
      absl::Seconds(request->has_idle_timeout_seconds() ? request->idle_timeout_seconds()
                                                        : kDefaultIdleTimeoutSeconds);
  engine_->OpenSession(request->session_id(), idle_timeout,
                       [this, context, response](const absl::StatusOr<SessionInfo>& session) {
                         Answer(context, "OpenSession", session, response);
                       });
  return context->DefaultReactor();
}

grpc::ServerUnaryReactor* SessionService::DescribeSession(grpc::CallbackServerContext* context,
                                                          const v1::DescribeSessionRequest* request,
                                                          v1::Session* response) {
  const absl::Status valid = ValidateDescribeSession(*request);
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "DescribeSession", valid);
  engine_->DescribeSession(request->session_id(),
                           [this, context, response](const absl::StatusOr<SessionInfo>& session) {
                             Answer(context, "DescribeSession", session, response);
                           });
  return context->DefaultReactor();
}

grpc::ServerUnaryReactor* SessionService::ListSessions(grpc::CallbackServerContext* context,
                                                       const v1::ListSessionsRequest* request,
                                                       v1::ListSessionsResponse* response) {
  const absl::Status valid = ValidateListSessions(*request);
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "ListSessions", valid);
  const int size =
      static_cast<int>(request->has_page_size() ? request->page_size() : kDefaultSessionPageSize);
  // One more than a page tells whether there is another.
  engine_->ListSessions(request->page_token(), size + 1,
                        [this, context, response, size](std::vector<SessionInfo> sessions) {
                          const bool more = static_cast<int>(sessions.size()) > size;
                          if (more) sessions.resize(size);
                          for (const SessionInfo& info : sessions) {
                            Fill(info, model_, response->add_sessions());
                          }
                          if (more) response->set_next_page_token(sessions.back().id);
                          FinishUnary(*context, *metrics_, "ListSessions", absl::OkStatus());
                        });
  return context->DefaultReactor();
}

grpc::ServerUnaryReactor* SessionService::CloseSession(grpc::CallbackServerContext* context,
                                                       const v1::CloseSessionRequest* request,
                                                       v1::CloseSessionResponse*) {
  const absl::Status valid = ValidateCloseSession(*request);
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "CloseSession", valid);
  engine_->CloseSession(request->session_id(), [this, context](absl::Status status) {
    FinishUnary(*context, *metrics_, "CloseSession", status);
  });
  return context->DefaultReactor();
}

}  // namespace tandem
