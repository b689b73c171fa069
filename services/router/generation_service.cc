#include "services/router/generation_service.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/generate_merge.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "common/rpc/reply_sink.h"
#include "common/rpc/status.h"
#include "common/rpc/validate.h"
#include "common/tokenizer/utf8_decoder.h"
#include "services/router/plan.h"

namespace tandem {
namespace {

// A call without a deadline has one far beyond this.
constexpr absl::Duration kNoDeadline = absl::Hours(24 * 365);

absl::Time DeadlineOf(const grpc::CallbackServerContext& context, absl::Time arrival,
                      absl::Duration default_timeout) {
  const absl::Time deadline = absl::FromChrono(context.deadline());
  return deadline - arrival > kNoDeadline ? arrival + default_timeout : deadline;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Relay>> RouterGenerationService::MakeRelay(
    const grpc::CallbackServerContext& context, const v1::GenerateRequest& request) {
  const absl::Time arrival = absl::Now();
  ASSIGN_OR_RETURN(const auto model, parts_.pool->Served());
  Relay::Request relayed = {.arrival = arrival,
                            .deadline = DeadlineOf(context, arrival, parts_.default_timeout)};
  ASSIGN_OR_RETURN(relayed.metadata, ParseMetadata(context.client_metadata(), request));
  RETURN_IF_ERROR(ValidateGenerate(request, model->Limits()));
  absl::Span<const uint32_t> history;
  if (request.has_session()) {
    const v1::SessionReference& session = request.session();
    std::optional<uint64_t> expected;
    if (session.has_expected_position()) expected = session.expected_position();
    ASSIGN_OR_RETURN(relayed.session, parts_.sessions->Use(session.session_id(), expected));
    history = relayed.session->history();
  }
  ASSIGN_OR_RETURN(relayed.plan, MakePlan(request, relayed.metadata, model, history));
  const std::string id = relayed.plan.request_id;
  ASSIGN_OR_RETURN(auto relay, Relay::Create(parts_.relays, std::move(relayed)));
  RETURN_IF_ERROR(parts_.live->Add(id, relay));
  return relay;
}

StreamHooks RouterGenerationService::HooksOf(const absl::StatusOr<std::shared_ptr<Relay>>& relay,
                                             const std::string& method) const {
  if (!relay.ok()) {
    return {.done = [page = parts_.page, method](absl::StatusCode outcome) {
      CountOutcome(*page, method, outcome);
    }};
  }
  RouterMetrics* const metrics = parts_.relays->metrics();
  metrics->active_streams.Increment();
  return {.cancelled = [relay = *relay] { relay->Cancel(); },
          .written = [relay = *relay] { relay->ClientCaughtUp(); },
          .done =
              [parts = parts_, metrics, method](absl::StatusCode outcome) {
                CountOutcome(*parts.page, method, outcome);
                metrics->active_streams.Decrement();
                parts.live->CallOver();
              }};
}

grpc::ServerWriteReactor<v1::GenerateResponse>* RouterGenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const auto relay = MakeRelay(*context, *request);
  const auto writer =
      StreamSink::Writer::Create(context, MergeGenerateResponse, HooksOf(relay, "Generate"));
  if (relay.ok()) {
    (*relay)->Start(std::make_shared<StreamSink>(writer));
  } else {
    writer->End(relay.status(), relay.status().code());
  }
  return writer.get();
}

grpc::ServerUnaryReactor* RouterGenerationService::GenerateOnce(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request,
    v1::GenerateOnceResponse* response) {
  const auto relay = MakeRelay(*context, *request);
  const auto writer = OnceWriter::Create(context, response, HooksOf(relay, "GenerateOnce"));
  if (relay.ok()) {
    (*relay)->Start(writer);
  } else {
    writer->End(relay.status(), relay.status().code());
  }
  return writer.get();
}

grpc::ServerUnaryReactor* RouterGenerationService::Cancel(grpc::CallbackServerContext* context,
                                                          const v1::CancelRequest* request,
                                                          v1::CancelResponse*) {
  absl::Status status = ValidateCancel(*request);
  if (status.ok() && request->has_retain_tokens()) {
    status = absl::UnimplementedError(
        "retain_tokens is for verifiers; a router sets the position of a session itself");
  }
  if (status.ok()) status = parts_.live->Cancel(request->request_id());
  return FinishUnary(*context, *parts_.page, "Cancel", status);
}

absl::Status RouterGenerationService::Tokenize(const v1::TokenizeRequest& request,
                                               v1::TokenizeResponse& response) const {
  ASSIGN_OR_RETURN(const auto model, parts_.pool->Served());
  RETURN_IF_ERROR(ValidateTokenize(request, model->Limits()));
  ASSIGN_OR_RETURN(const std::vector<uint32_t> ids, EncodeInput(request, *model->vocabulary));
  for (const uint32_t id : ids) {
    response.add_ids(id);
    const absl::string_view bytes = model->vocabulary->Bytes(static_cast<int32_t>(id));
    response.add_pieces(bytes.data(), bytes.size());
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* RouterGenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                            const v1::TokenizeRequest* request,
                                                            v1::TokenizeResponse* response) {
  return FinishUnary(*context, *parts_.page, "Tokenize", Tokenize(*request, *response));
}

absl::Status RouterGenerationService::Detokenize(const v1::DetokenizeRequest& request,
                                                 v1::DetokenizeResponse& response) const {
  ASSIGN_OR_RETURN(const auto model, parts_.pool->Served());
  RETURN_IF_ERROR(ValidateDetokenize(request, model->Limits()));
  const std::vector<int32_t> ids(request.ids().begin(), request.ids().end());
  response.set_raw(model->vocabulary->Decode(ids));
  response.set_text(ReplaceInvalidUtf8(response.raw()));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* RouterGenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                              const v1::DetokenizeRequest* request,
                                                              v1::DetokenizeResponse* response) {
  return FinishUnary(*context, *parts_.page, "Detokenize", Detokenize(*request, *response));
}

grpc::ServerUnaryReactor* RouterGenerationService::GetModel(grpc::CallbackServerContext* context,
                                                            const v1::GetModelRequest*,
                                                            v1::GetModelResponse* response) {
  const auto model = parts_.pool->Served();
  if (model.ok()) {
    *response = (*model)->model;
    *response->mutable_drafter() = parts_.pool->drafter();
  }
  return FinishUnary(*context, *parts_.page, "GetModel", model.status());
}

}  // namespace tandem
