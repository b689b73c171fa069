#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/metrics/metrics_page.h"
#include "common/rpc/stream.h"
#include "services/verifier/engine.h"
#include "services/verifier/serving_gate.h"
#include "services/verifier/token_sink.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// Ties a call that may be cancelled at any time to the request that it submits. Thread-safe.
class CallLink final {
 public:
  void Submitted(Engine* engine, uint64_t handle) {
    handle_ = handle;
    engine_ = engine;
    if (cancelled_) engine->Drop(handle);
  }
  void Cancelled() {
    cancelled_ = true;
    if (Engine* const engine = engine_) engine->Drop(handle_);
  }

 private:
  std::atomic<Engine*> engine_{nullptr};  // set last
  std::atomic<uint64_t> handle_{0};
  std::atomic<bool> cancelled_{false};
};

// One Generate call: what the engine says becomes messages of its stream.
class StreamSink final : public TokenSink {
 public:
  using Writer = StreamWriter<v1::GenerateResponse>;
  StreamSink(std::shared_ptr<Writer> writer, std::string request_id, std::string model,
             MetricsPage* metrics);

  void Started(const ReplyStarted& started) override;
  void Round(ReplyRound round) override;
  void Finished(const ReplyFinished& finished) override;
  void Failed(const ReplyFailed& failed) override;
  int unsent_tokens() const override { return writer_->pending_tokens(); }

 private:
  const std::shared_ptr<Writer> writer_;
  const std::string request_id_;
  const std::string model_;
  MetricsPage* const metrics_;
  bool started_ = false;
};

// One GenerateOnce call: gathers everything and answers at the end. Kept alive by itself until gRPC
// is done with it and by its request until that is over.
class OnceCall final : public grpc::ServerUnaryReactor, public TokenSink {
 public:
  static std::shared_ptr<OnceCall> Create(grpc::CallbackServerContext* context,
                                          v1::GenerateOnceResponse* response, MetricsPage* metrics);
  void Begin(const ServingParts& parts, GenerationInput input);
  void End(const absl::Status& status, absl::StatusCode outcome);

  void Started(const ReplyStarted& started) override;
  void Round(ReplyRound round) override;
  void Finished(const ReplyFinished& finished) override;
  void Failed(const ReplyFailed& failed) override;
  int unsent_tokens() const override { return 0; }

  void OnCancel() override { link_.Cancelled(); }
  void OnDone() override { self_.reset(); }

 private:
  OnceCall(grpc::CallbackServerContext* context, v1::GenerateOnceResponse* response,
           MetricsPage* metrics)
      : context_(context), response_(response), metrics_(metrics) {}

  grpc::CallbackServerContext* const context_;
  v1::GenerateOnceResponse* const response_;
  MetricsPage* const metrics_;
  CallLink link_;
  std::string request_id_;
  std::string model_;
  std::shared_ptr<OnceCall> self_;
};

}  // namespace tandem
