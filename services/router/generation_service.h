#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/rpc/stream.h"
#include "services/router/live_requests.h"
#include "services/router/relay.h"
#include "services/router/session_table.h"
#include "services/router/worker_pool.h"
#include "tandem/v1/generation.grpc.pb.h"

namespace tandem {

// What the public services work on; all of it outlives them.
struct RouterParts {
  MetricsPage* page = nullptr;
  WorkerPool* pool = nullptr;
  SessionTable* sessions = nullptr;
  LiveRequests* live = nullptr;
  const RelayContext* relays = nullptr;
  absl::Duration default_timeout = absl::Minutes(10);  // for calls without a deadline
};

// The public GenerationService: text, chat and token ids, answered by the verifiers.
class RouterGenerationService final : public v1::GenerationService::CallbackService {
 public:
  explicit RouterGenerationService(const RouterParts& parts) : parts_(parts) {}

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
  // A relay that is registered as live, or why there is none.
  absl::StatusOr<std::shared_ptr<Relay>> MakeRelay(const grpc::CallbackServerContext& context,
                                                   const v1::GenerateRequest& request);
  absl::Status Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse& response) const;
  absl::Status Detokenize(const v1::DetokenizeRequest& request,
                          v1::DetokenizeResponse& response) const;
  StreamHooks HooksOf(const absl::StatusOr<std::shared_ptr<Relay>>& relay,
                      const std::string& method) const;

  const RouterParts parts_;
};

}  // namespace tandem
