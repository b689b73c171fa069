#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "common/metrics/metrics_page.h"
#include "common/rpc/stream.h"
#include "services/verifier/engine.h"
#include "services/verifier/token_sink.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// Ties a call that may be cancelled at any time to the request that it submits. Thread-safe.
class CallLink final {
 public:
  explicit CallLink(Engine* engine) : engine_(engine) {}

  void Submitted(uint64_t handle) {
    handle_ = handle;
    if (cancelled_) engine_->Drop(handle);
  }
  void Cancelled() {
    cancelled_ = true;
    if (const uint64_t handle = handle_; handle != 0) engine_->Drop(handle);
  }

 private:
  Engine* const engine_;
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
                                          v1::GenerateOnceResponse* response, Engine* engine,
                                          MetricsPage* metrics);
  // `request_id` and `model` are for the answer.
  void Begin(GenerationInput input, const std::string& model);
  void End(const absl::Status& status, absl::StatusCode outcome);

  void Started(const ReplyStarted& started) override;
  void Round(ReplyRound round) override;
  void Finished(const ReplyFinished& finished) override;
  void Failed(const ReplyFailed& failed) override;
  int unsent_tokens() const override { return 0; }

  void OnCancel() override { link_.Cancelled(); }
  void OnDone() override { self_.reset(); }

 private:
  OnceCall(grpc::CallbackServerContext* context, v1::GenerateOnceResponse* response, Engine* engine,
           MetricsPage* metrics)
      : context_(context), response_(response), engine_(engine), metrics_(metrics), link_(engine) {}

  grpc::CallbackServerContext* const context_;
  v1::GenerateOnceResponse* const response_;
  Engine* const engine_;
  MetricsPage* const metrics_;
  CallLink link_;
  std::string request_id_;
  std::string model_;
  std::shared_ptr<OnceCall> self_;
};

}  // namespace tandem
