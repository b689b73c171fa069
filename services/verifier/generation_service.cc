#include "services/verifier/generation_service.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/generate_merge.h"
#include "common/rpc/metadata.h"
#include "common/rpc/outcome.h"
#include "services/verifier/generation_calls.h"
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

GenerationService::GenerationService(Options options, Engine* engine, const ServedModel* model,
                                     std::function<HandoffStatus()> handoff, MetricsPage* metrics)
    : options_(options),
      engine_(engine),
      model_(model),
      handoff_(std::move(handoff)),
      metrics_(metrics),
      limits_(Limits(*model)) {}

absl::StatusOr<GenerationInput> GenerationService::Accept(
    const grpc::CallbackServerContext& context, const v1::GenerateRequest& request) const {
  ASSIGN_OR_RETURN(const RequestMetadata metadata, ParseMetadata(context.client_metadata()));
  RETURN_IF_ERROR(ValidateGenerate(request, limits_));
  const absl::Time deadline =
      std::min(absl::FromChrono(context.deadline()), absl::Now() + options_.max_request_time);
  return ToInput(request, limits_, metadata, deadline);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  auto link = std::make_shared<CallLink>(engine_);
  auto writer = StreamSink::Writer::Create(
      context, &MergeGenerateResponse,
      {.cancelled = [link] { link->Cancelled(); },
       .done = [page =
                    metrics_](absl::StatusCode code) { CountOutcome(*page, "Generate", code); }});
  absl::StatusOr<GenerationInput> input = Accept(*context, *request);
  if (!input.ok()) {
    writer->End(input.status(), input.status().code());
    return writer.get();
  }
  auto sink = std::make_shared<StreamSink>(writer, input->request_id, model_->name, metrics_);
  link->Submitted(engine_->Submit(*std::move(input), std::move(sink)));
  return writer.get();
}

grpc::ServerUnaryReactor* GenerationService::GenerateOnce(grpc::CallbackServerContext* context,
                                                          const v1::GenerateRequest* request,
                                                          v1::GenerateOnceResponse* response) {
  const auto call = OnceCall::Create(context, response, engine_, metrics_);
  absl::StatusOr<GenerationInput> input = Accept(*context, *request);
  if (input.ok()) {
    call->Begin(*std::move(input), model_->name);
  } else {
    call->End(input.status(), input.status().code());
  }
  return call.get();
}

grpc::ServerUnaryReactor* GenerationService::Cancel(grpc::CallbackServerContext* context,
                                                    const v1::CancelRequest* request,
                                                    v1::CancelResponse*) {
  const absl::Status valid = ValidateCancel(*request);
  if (!valid.ok()) return FinishUnary(*context, *metrics_, "Cancel", valid);
  std::optional<int64_t> retain;
  if (request->has_retain_tokens()) retain = request->retain_tokens();
  engine_->Cancel(request->request_id(), retain, [this, context](absl::Status status) {
    FinishUnary(*context, *metrics_, "Cancel", status);
  });
  return context->DefaultReactor();
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
  Fill(*model_, handoff_(), response);
  return FinishUnary(*context, *metrics_, "GetModel", absl::OkStatus());
}

}  // namespace tandem
