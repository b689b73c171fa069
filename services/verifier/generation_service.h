#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/reply_sink.h"
#include "services/verifier/event_sink.h"
#include "services/verifier/generation.h"
#include "services/verifier/serving_gate.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem {

// tandem.v1.GenerationService over an engine: token ids in, token ids out. Nothing blocks.
class GenerationService final : public v1::GenerationService::CallbackService {
 public:
  struct Options {
    // Of calls that bring no deadline of their own.
    absl::Duration max_request_time = absl::Hours(1);
  };
  // Both must outlive the service.
  GenerationService(Options options, const ServingGate* gate, MetricsPage* metrics);

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
  // A request that may go to the engine of `parts`.
  struct Accepted {
    const ServingParts* parts = nullptr;
    GenerationInput input = {};
  };
  absl::StatusOr<Accepted> Accept(const grpc::CallbackServerContext& context,
                                  const v1::GenerateRequest& request) const;
  StreamHooks Hooks(const std::string& method, const std::shared_ptr<CallLink>& link) const;
  // Answers through `reply`; `link` drops the request when its call is cancelled.
  void Submit(const grpc::CallbackServerContext& context, const v1::GenerateRequest& request,
              std::shared_ptr<ReplySink> reply, CallLink& link) const;

  const Options options_;
  const ServingGate* const gate_;
  MetricsPage* const metrics_;
};

}  // namespace tandem
