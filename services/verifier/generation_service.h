#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/validate.h"
#include "services/verifier/engine.h"
#include "services/verifier/handoff.h"
#include "services/verifier/served_model.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem {

// tandem.v1.GenerationService over an engine: token ids in, token ids out. Nothing blocks.
class GenerationService final : public v1::GenerationService::CallbackService {
 public:
  struct Options {
    // Of calls that bring no deadline of their own.
    absl::Duration max_request_time = absl::Hours(1);
  };
  // Everything must outlive the service. `handoff` is called from any thread.
  GenerationService(Options options, Engine* engine, const ServedModel* model,
                    std::function<HandoffStatus()> handoff, MetricsPage* metrics);

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* GenerateOnce(grpc::CallbackServerContext* context,
                                         const v1::GenerateRequest* request,
                                         v1::GenerateOnceResponse* response) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const v1::CancelRequest* request,
                                   v1::CancelResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

 private:
  absl::StatusOr<GenerationInput> Accept(const grpc::CallbackServerContext& context,
                                         const v1::GenerateRequest& request) const;

  const Options options_;
  Engine* const engine_;
  const ServedModel* const model_;
  const std::function<HandoffStatus()> handoff_;
  MetricsPage* const metrics_;
  const RequestLimits limits_;
};

}  // namespace tandem
