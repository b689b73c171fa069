#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/metrics/metrics_page.h"
#include "common/rpc/reply_sink.h"
#include "services/verifier/engine.h"
#include "services/verifier/token_sink.h"

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

// One call of a client: what the engine says becomes the events of its reply.
class EventSink final : public TokenSink {
 public:
  EventSink(std::shared_ptr<ReplySink> reply, std::string request_id, std::string model,
            MetricsPage* metrics)
      : reply_(std::move(reply)),
        request_id_(std::move(request_id)),
        model_(std::move(model)),
        metrics_(metrics) {}

  void Started(const ReplyStarted& started) override;
  void Round(ReplyRound round) override;
  void Finished(const ReplyFinished& finished) override;
  void Failed(const ReplyFailed& failed) override;
  int unsent_tokens() const override { return reply_->pending_tokens(); }

 private:
  const std::shared_ptr<ReplySink> reply_;
  const std::string request_id_;
  const std::string model_;
  MetricsPage* const metrics_;
  bool started_ = false;
};

}  // namespace tandem
