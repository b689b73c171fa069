#include "services/verifier/generation_service.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/generate_merge.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "common/rpc/validate.h"
#include "services/verifier/event_sink.h"
#include "services/verifier/generation_service_messages.h"

namespace tandem {
namespace {

RequestLimits Limits(const ServedModel& model) {
  return {.model = model.name,
          .vocabulary_size = static_cast<uint32_t>(model.config.vocab),
          .max_prompt_tokens = model.max_prompt_tokens,
          .max_tokens = model.max_tokens,
          .token_ids_only = true};
}

absl::Status ServedByRouter() {
  return absl::UnimplementedError("served by the router: a verifier knows token ids only");
}

}  // namespace

GenerationService::GenerationService(Options options, const ServingGate* gate, MetricsPage* metrics)
    : options_(options), gate_(gate), metrics_(metrics) {}

absl::StatusOr<GenerationService::Accepted> GenerationService::Accept(
    const grpc::CallbackServerContext& context, const v1::GenerateRequest& request) const {
  ASSIGN_OR_RETURN(const ServingParts* const parts, gate_->Enter());
  ASSIGN_OR_RETURN(const RequestMetadata metadata,
                   ParseMetadata(context.client_metadata(), request));
  const RequestLimits limits = Limits(*parts->model);
  RETURN_IF_ERROR(ValidateGenerate(request, limits));
  const absl::Time deadline =
      std::min(absl::FromChrono(context.deadline()), absl::Now() + options_.max_request_time);
  return Accepted{.parts = parts, .input = ToInput(request, limits, metadata, deadline)};
}

StreamHooks GenerationService::Hooks(const std::string& method,
                                     const std::shared_ptr<CallLink>& link) const {
  return {.cancelled = [link] { link->Cancelled(); },
          .done = [page = metrics_,
                   method](absl::StatusCode code) { CountOutcome(*page, method, code); }};
}

void GenerationService::Submit(const grpc::CallbackServerContext& context,
                               const v1::GenerateRequest& request, std::shared_ptr<ReplySink> reply,
                               CallLink& link) const {
  absl::StatusOr<Accepted> accepted = Accept(context, request);
  if (!accepted.ok()) return reply->End(accepted.status(), accepted.status().code());
  const ServingParts& parts = *accepted->parts;
  auto sink = std::make_shared<EventSink>(std::move(reply), accepted->input.request_id,
                                          parts.model->name, metrics_);
  link.Submitted(parts.engine, parts.engine->Submit(std::move(accepted->input), std::move(sink)));
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const auto link = std::make_shared<CallLink>();
  const auto writer =
      StreamSink::Writer::Create(context, &MergeGenerateResponse, Hooks("Generate", link));
  Submit(*context, *request, std::make_shared<StreamSink>(writer), *link);
  return writer.get();
}

grpc::ServerUnaryReactor* GenerationService::GenerateOnce(grpc::CallbackServerContext* context,
                                                          const v1::GenerateRequest* request,
                                                          v1::GenerateOnceResponse* response) {
  const auto link = std::make_shared<CallLink>();
  const auto writer = OnceWriter::Create(context, response, Hooks("GenerateOnce", link));
  Submit(*context, *request, writer, *link);
  return writer.get();
}

grpc::ServerUnaryReactor* GenerationService::Cancel(grpc::CallbackServerContext* context,
                                                    const v1::CancelRequest* request,
                                                    v1::CancelResponse*) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateCancel(*request) : parts.status();
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "Cancel", valid);
  std::optional<int64_t> retain;
  if (request->has_retain_tokens()) retain = request->retain_tokens();
  const UnaryCall call(context, metrics_, "Cancel");
  (*parts)->engine->Cancel(request->request_id(), retain,
                           [call](const absl::Status& status) { call.Finish(status); });
  return call.reactor();
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest*,
                                                      v1::TokenizeResponse*) {
  return FinishUnary(*context, *metrics_, "Tokenize", ServedByRouter());
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest*,
                                                        v1::DetokenizeResponse*) {
  return FinishUnary(*context, *metrics_, "Detokenize", ServedByRouter());
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest*,
                                                      v1::GetModelResponse* response) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  if (parts.ok()) Fill(*(*parts)->model, (*parts)->handoff(), response);
  return FinishUnary(*context, *metrics_, "GetModel", parts.status());
}

}  // namespace tandem
