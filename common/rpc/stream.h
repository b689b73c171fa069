#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "common/rpc/outcome.h"
#include "common/rpc/status.h"
#include "common/rpc/stream_core.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"

namespace tandem {

// What the owner of a stream hears of it, from gRPC threads. `cancelled` and `written` may come
// before the handler has returned; `done` is the last, and the hooks are dropped after it.
struct StreamHooks {
  // The client or the deadline ended the call; at most once.
  std::function<void()> cancelled = {};
  // A write is over.
  std::function<void()> written = {};
  // The call is over. What a client of tandem sees as its result.
  std::function<void(absl::StatusCode outcome)> done = {};
};

// A server stream on the callback API: one write in flight, what gathers meanwhile becomes one
// message. Any thread may push; nothing blocks. The object lives at least until the call is over,
// and longer while a caller holds it.
template <typename Response>
class StreamWriter final : public grpc::ServerWriteReactor<Response> {
 public:
  using Core = StreamCore<Response>;

  // The handler returns the pointer to gRPC.
  static std::shared_ptr<StreamWriter> Create(grpc::CallbackServerContext* context,
                                              typename Core::Merge merge, StreamHooks hooks) {
    auto writer = std::shared_ptr<StreamWriter>(new StreamWriter(context, merge, std::move(hooks)));
    writer->self_ = writer;
    return writer;
  }

  // A message that stands for `tokens` tokens; dropped when the stream has ended.
  void Push(Response message, int tokens) { Do(core_.Push(std::move(message), tokens)); }

  // Ends the stream after what was pushed. `outcome` is what the trailer and the metrics say; it
  // differs from the status's code when a terminal event told the failure. Only the first End
  // counts.
  void End(absl::Status status, absl::StatusCode outcome) {
    {
      const std::lock_guard lock(mutex_);
      if (!end_.has_value()) end_ = {std::move(status), outcome};
    }
    Do(core_.End());
  }

  int pending_tokens() const { return core_.pending_tokens(); }

  void OnWriteDone(bool ok) override {
    const auto self = self_;
    Do(core_.Written(ok));
    if (ok && hooks_.written) hooks_.written();
  }

  void OnCancel() override {
    const auto self = self_;
    {
      const std::lock_guard lock(mutex_);
      // Also where the end was said but is not on its way yet: the client will not see it.
      if (!finishing_) {
        const absl::StatusCode code = CancelledBy(*context_);
        end_ = {absl::Status(code, "the call was cancelled"), code};
      }
    }
    Do(core_.Cancel());
    if (hooks_.cancelled) hooks_.cancelled();
  }

  void OnDone() override {
    const StreamHooks hooks = std::exchange(hooks_, {});
    const auto self = std::exchange(self_, nullptr);
    if (hooks.done) hooks.done(end_->second);
  }

 private:
  StreamWriter(grpc::CallbackServerContext* context, typename Core::Merge merge, StreamHooks hooks)
      : context_(context), core_(merge), hooks_(std::move(hooks)) {}

  void Do(typename Core::Step step) {
    if (step == Core::Step::kWrite) this->StartWrite(&core_.writing());
    if (step == Core::Step::kFinish) Finish();
  }

  void Finish() {
    std::pair<absl::Status, absl::StatusCode> end;
    {
      const std::lock_guard lock(mutex_);
      finishing_ = true;
      // Only a failed write ends a stream that nobody ended.
      if (!end_.has_value()) {
        end_ = {absl::CancelledError("the client is gone"), absl::StatusCode::kCancelled};
      }
      end = *end_;
    }
    AddOutcomeTrailer(*context_, end.second);
    grpc::ServerWriteReactor<Response>::Finish(ToGrpc(end.first));
  }

  grpc::CallbackServerContext* const context_;
  Core core_;
  StreamHooks hooks_;
  std::mutex mutex_;
  std::optional<std::pair<absl::Status, absl::StatusCode>> end_;
  bool finishing_ = false;
  std::shared_ptr<StreamWriter> self_;
};

}  // namespace tandem
