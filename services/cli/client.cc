#include "services/cli/client.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/client.h"
#include "common/rpc/status.h"

namespace tandem::cli {
namespace {

// Small calls are answered at once by a server that is alive.
constexpr std::chrono::seconds kShortCall{20};
constexpr char kTooLarge[] = "Received message larger than max";

std::chrono::system_clock::time_point ShortDeadline() {
  return std::chrono::system_clock::now() + kShortCall;
}

}  // namespace

Client::Client(std::string address, bool own_connection)
    : address_(std::move(address)),
      channel_(MakeChannel(address_, {.own_connection = own_connection})),
      generation_(v1::GenerationService::NewStub(channel_)),
      sessions_(v1::SessionService::NewStub(channel_)) {}

absl::Status Client::Convert(const grpc::Status& status) const {
  const absl::Status result = FromGrpc(status);
  if (absl::IsDeadlineExceeded(result)) {
    return absl::DeadlineExceededError(
        absl::StrCat("no complete answer from ", address_, " in time (", result.message(), ")"));
  }
  // What the RPC library says when the server refuses the size of a request.
  if (absl::IsResourceExhausted(result) && absl::StartsWith(result.message(), kTooLarge)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the request has too many bytes for ", address_, " (", result.message(),
                     "); shorten it, or raise --max-message-bytes of tandem-router"));
  }
  if (!absl::IsUnavailable(result) || channel_->GetState(false) == GRPC_CHANNEL_READY) {
    return result;
  }
  return absl::UnavailableError(absl::StrCat("nothing answers at ", address_,
                                             "; start it with 'tandem up', or name the router with "
                                             "--address"));
}

absl::Status Client::WaitForConnection(absl::Duration timeout) const {
  if (channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + timeout))) {
    return absl::OkStatus();
  }
  return Convert(grpc::Status(grpc::StatusCode::UNAVAILABLE, "no connection"));
}

absl::StatusOr<v1::GetModelResponse> Client::GetModel() const {
  grpc::ClientContext context;
  context.set_deadline(ShortDeadline());
  v1::GetModelResponse response;
  RETURN_IF_ERROR(Convert(generation_->GetModel(&context, v1::GetModelRequest(), &response)));
  return response;
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(const std::string& text) const {
  grpc::ClientContext context;
  context.set_deadline(ShortDeadline());
  v1::TokenizeRequest request;
  request.set_text_utf8(text);
  v1::TokenizeResponse response;
  RETURN_IF_ERROR(Convert(generation_->Tokenize(&context, request, &response)));
  return response;
}

absl::StatusOr<std::string> Client::Detokenize(const std::vector<uint32_t>& ids) const {
  grpc::ClientContext context;
  context.set_deadline(ShortDeadline());
  v1::DetokenizeRequest request;
  request.mutable_ids()->Add(ids.begin(), ids.end());
  v1::DetokenizeResponse response;
  RETURN_IF_ERROR(Convert(generation_->Detokenize(&context, request, &response)));
  return response.raw();
}

absl::StatusOr<v1::Session> Client::OpenSession() const {
  grpc::ClientContext context;
  context.set_deadline(ShortDeadline());
  v1::Session session;
  RETURN_IF_ERROR(Convert(sessions_->OpenSession(&context, v1::OpenSessionRequest(), &session)));
  return session;
}

absl::Status Client::CloseSession(const std::string& id) const {
  grpc::ClientContext context;
  context.set_deadline(ShortDeadline());
  v1::CloseSessionRequest request;
  request.set_session_id(id);
  v1::CloseSessionResponse response;
  return Convert(sessions_->CloseSession(&context, request, &response));
}

absl::Status Client::Generate(
    const v1::GenerateRequest& request, grpc::ClientContext& context,
    const std::function<void(const v1::GenerateResponse&)>& on_event) const {
  const auto stream = generation_->Generate(&context, request);
  absl::Status outcome = absl::InternalError("the stream ended without finished or failed");
  v1::GenerateResponse response;
  while (stream->Read(&response)) {
    if (response.has_finished()) outcome = absl::OkStatus();
    if (response.has_failed()) {
      const v1::Failed& failed = response.failed();
      outcome = absl::Status(static_cast<absl::StatusCode>(failed.code()),
                             absl::StrCat(failed.reason(), ": ", failed.message()));
    }
    on_event(response);
  }
  const grpc::Status status = stream->Finish();
  return status.ok() ? outcome : Convert(status);
}

absl::StatusOr<absl::string_view> Pieces::Get(uint32_t id) {
  auto found = pieces_.find(id);
  if (found == pieces_.end()) {
    ASSIGN_OR_RETURN(std::string bytes, client_->Detokenize({id}));
    found = pieces_.emplace(id, std::move(bytes)).first;
  }
  return absl::string_view(found->second);
}

}  // namespace tandem::cli
