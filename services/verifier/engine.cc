#include "services/verifier/engine.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "services/verifier/engine_loop.h"

namespace tandem {

struct Engine::Shared {
  Inbox inbox;
  std::function<absl::Time()> now;
  std::atomic<uint64_t> next_handle{1};
  bool stop = false;  // of the engine's thread

  absl::Mutex mu;
  EngineLoad load ABSL_GUARDED_BY(mu);  // of the last turn
  absl::Time turn_end ABSL_GUARDED_BY(mu);
};

Engine::Engine(std::unique_ptr<Shared> shared, std::unique_ptr<EngineLoop> loop)
    : shared_(std::move(shared)), loop_(std::move(loop)) {}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(Backend* backend, const Rwkv7* model,
                                                       DraftPort* port, VerifierMetrics* metrics,
                                                       EngineOptions options) {
  auto shared = std::make_unique<Shared>();
  shared->now = options.now;
  ASSIGN_OR_RETURN(auto loop,
                   EngineLoop::Create(backend, model, port, metrics, std::move(options)));
  std::unique_ptr<Engine> engine(new Engine(std::move(shared), std::move(loop)));
  engine->ShowLoad();
  return engine;
}

Engine::~Engine() {
  if (thread_.joinable()) {
    shared_->inbox.Push([this] { shared_->stop = true; });
    thread_.join();
  }
  for (const Inbox::Command& command : shared_->inbox.Take(absl::ZeroDuration())) command();
  loop_->FailAll("the verifier is stopping");
}

void Engine::Start() {
  thread_ = std::thread([this] {
    while (!shared_->stop) RunOnce(absl::Seconds(1));
  });
}

bool Engine::RunOnce(absl::Duration idle) {
  const absl::Duration wait = std::min(idle, loop_->IdleTime());
  for (const Inbox::Command& command : shared_->inbox.Take(wait)) command();
  const bool ran = loop_->Turn();
  ShowLoad();
  return ran;
}

void Engine::ShowLoad() {
  const EngineLoad load = loop_->Load();
  const absl::Time now = shared_->now();
  const absl::MutexLock lock(&shared_->mu);
  shared_->load = load;
  shared_->turn_end = now;
}

EngineLoad Engine::load() const {
  EngineLoad load;
  absl::Time turn_end;
  {
    const absl::MutexLock lock(&shared_->mu);
    load = shared_->load;
    turn_end = shared_->turn_end;
  }
  if (load.active + load.queued > 0 || !shared_->inbox.empty()) {
    load.stalled = shared_->now() - turn_end;
  }
  return load;
}

uint64_t Engine::Submit(GenerationInput input, std::shared_ptr<TokenSink> sink) {
  const uint64_t handle = shared_->next_handle++;
  shared_->inbox.Push([this, handle, arrival = shared_->now(), input = std::move(input),
                       sink = std::move(sink)]() mutable {
    loop_->Submit(handle, arrival, std::move(input), std::move(sink));
  });
  return handle;
}

void Engine::Drop(uint64_t handle) {
  shared_->inbox.Push([this, handle] { loop_->Drop(handle); });
}

void Engine::Cancel(std::string request_id, std::optional<int64_t> retain,
                    std::function<void(absl::Status)> done) {
  shared_->inbox.Push([this, id = std::move(request_id), retain, done = std::move(done)] {
    done(loop_->Cancel(id, retain));
  });
}

void Engine::OpenSession(SessionOptions options,
                         std::function<void(absl::StatusOr<SessionInfo>)> done) {
  shared_->inbox.Push([this, options = std::move(options), done = std::move(done)] {
    done(loop_->OpenSession(options));
  });
}

void Engine::DescribeSession(std::string id,
                             std::function<void(absl::StatusOr<SessionInfo>)> done) {
  shared_->inbox.Push(
      [this, id = std::move(id), done = std::move(done)] { done(loop_->DescribeSession(id)); });
}

void Engine::ListSessions(std::string after, int limit,
                          std::function<void(std::vector<SessionInfo>)> done) {
  shared_->inbox.Push([this, after = std::move(after), limit, done = std::move(done)] {
    done(loop_->ListSessions(after, limit));
  });
}

void Engine::CloseSession(std::string id, std::function<void(absl::Status)> done) {
  shared_->inbox.Push(
      [this, id = std::move(id), done = std::move(done)] { done(loop_->CloseSession(id)); });
}

void Engine::RouterJoined(std::string router_id) {
  shared_->inbox.Push([this, id = std::move(router_id)] { loop_->RouterJoined(id); });
}

void Engine::RouterLeft(std::string router_id) {
  shared_->inbox.Push([this, id = std::move(router_id)] { loop_->RouterLeft(id); });
}

void Engine::Drain(absl::Duration timeout, std::function<void()> done) {
  shared_->inbox.Push([this, timeout, done = std::move(done)] { loop_->Drain(timeout, done); });
}

}  // namespace tandem
