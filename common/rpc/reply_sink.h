#pragma once

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/stream.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "tandem/v1/generation.pb.h"

namespace tandem {

// Where a reply goes: a stream or a single answer. Thread-safe; nothing blocks.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  // `tokens` of it wait for a slow client until they are written.
  virtual void Send(v1::GenerateResponse message, int tokens) = 0;
  // `outcome` is what trailer and metrics say. Only the first End counts.
  virtual void End(const absl::Status& status, absl::StatusCode outcome) = 0;
  virtual int pending_tokens() const = 0;
};

// A reply as the events of Generate.
class StreamSink final : public ReplySink {
 public:
  using Writer = StreamWriter<v1::GenerateResponse>;
  explicit StreamSink(std::shared_ptr<Writer> writer) : writer_(std::move(writer)) {}

  void Send(v1::GenerateResponse message, int tokens) override {
    writer_->Push(std::move(message), tokens);
  }
  void End(const absl::Status& status, absl::StatusCode outcome) override {
    writer_->End(status, outcome);
  }
  int pending_tokens() const override { return writer_->pending_tokens(); }

 private:
  const std::shared_ptr<Writer> writer_;
};

// A reply as the one answer of GenerateOnce. Lives until its call is over, and longer while held.
class OnceWriter final : public grpc::ServerUnaryReactor, public ReplySink {
 public:
  // Hooks as of StreamWriter; nothing is ever pending.
  static std::shared_ptr<OnceWriter> Create(grpc::CallbackServerContext* context,
                                            v1::GenerateOnceResponse* response, StreamHooks hooks);

  void Send(v1::GenerateResponse message, int tokens) override;
  void End(const absl::Status& status, absl::StatusCode outcome) override;
  int pending_tokens() const override { return 0; }

  void OnCancel() override;
  void OnDone() override;

 private:
  OnceWriter(grpc::CallbackServerContext* context, v1::GenerateOnceResponse* response,
             StreamHooks hooks)
      : context_(context), hooks_(std::move(hooks)), response_(response) {}

  grpc::CallbackServerContext* const context_;
  StreamHooks hooks_;
  absl::Mutex mutex_;
  v1::GenerateOnceResponse* const response_ ABSL_PT_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::StatusCode outcome_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kCancelled;
  std::shared_ptr<OnceWriter> self_;
};

}  // namespace tandem
