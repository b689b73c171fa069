#include "services/verifier/worker_service.h"

#include <algorithm>
#include <utility>

#include "common/rpc/outcome.h"
#include "common/rpc/validate.h"
#include "services/verifier/generation_service_messages.h"

namespace tandem {
namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr absl::Duration kSignOfLife = absl::Milliseconds(500);

// Only the newest load matters.
bool Replace(v1::WorkerLoad& into, v1::WorkerLoad& from) {
  into.Swap(&from);
  return true;
}

v1::WorkerLoad ToMessage(const EngineLoad& load, const ServingParts& parts) {
  v1::WorkerLoad message;
  message.set_instance_id(parts.model->instance_id);
  message.set_accepting(load.accepting);
  message.set_state_slots(static_cast<uint32_t>(load.slots));
  message.set_state_slots_used(static_cast<uint32_t>(load.slots_used));
  message.set_active(static_cast<uint32_t>(load.active));
  message.set_queued(static_cast<uint32_t>(load.queued));
  message.set_sessions(static_cast<uint32_t>(load.sessions));
  message.set_max_sessions(static_cast<uint32_t>(load.max_sessions));
  Fill(parts.handoff(), parts.model->schedule, message.mutable_drafter());
  return message;
}

bool KeepApart(v1::VocabularyChunk&, v1::VocabularyChunk&) { return false; }

}  // namespace

WorkerService::WorkerService(Options options, const ServingGate* gate, BeginDrain begin_drain,
                             LoadObserver observer, MetricsPage* metrics)
    : options_(options),
      gate_(gate),
      begin_drain_(std::move(begin_drain)),
      observer_(std::move(observer)),
      metrics_(metrics),
      thread_([this] { WatchThread(); }) {}

WorkerService::~WorkerService() { StopWatching(); }

void WorkerService::StopWatching() {
  EndWatches();
  if (thread_.joinable()) thread_.join();
}

void WorkerService::EndWatches() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (const auto& watch : Watches()) watch->End(absl::OkStatus(), absl::StatusCode::kOk);
}

std::vector<std::shared_ptr<WorkerService::Watch>> WorkerService::Watches() const {
  absl::MutexLock lock(&mutex_);
  return {watches_.begin(), watches_.end()};
}

void WorkerService::WatchThread() {
  std::string last;
  absl::Time last_sent = absl::InfinitePast();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.watch_interval)) return;
    }
    const ServingParts* const parts = gate_->parts();
    if (parts == nullptr) continue;
    const EngineLoad load = parts->engine->load();
    observer_(load);
    const std::vector<std::shared_ptr<Watch>> watches = Watches();
    if (watches.empty()) continue;
    const v1::WorkerLoad message = ToMessage(load, *parts);
    std::string text = message.SerializeAsString();
    const absl::Time now = absl::Now();
    if (text == last && now - last_sent < kSignOfLife) continue;
    last = std::move(text);
    last_sent = now;
    for (const auto& watch : watches) watch->Push(message, 0);
  }
}

grpc::ServerUnaryReactor* WorkerService::GetWorker(grpc::CallbackServerContext* context,
                                                   const v1::GetWorkerRequest*,
                                                   v1::GetWorkerResponse* response) {
  const absl::StatusOr<const ServingParts*> entered = gate_->Enter();
  if (!entered.ok()) return FinishUnary(*context, *metrics_, "GetWorker", entered.status());
  const ServingParts& parts = **entered;
  response->set_instance_id(parts.model->instance_id);
  response->set_version(parts.model->version);
  Fill(*parts.model, parts.handoff(), response->mutable_model());
  response->set_vocabulary_hash(parts.vocabulary->bytes.empty() ? "" : parts.vocabulary->hash);
  return FinishUnary(*context, *metrics_, "GetWorker", absl::OkStatus());
}

grpc::ServerWriteReactor<v1::VocabularyChunk>* WorkerService::GetVocabulary(
    grpc::CallbackServerContext* context, const v1::GetVocabularyRequest*) {
  const auto writer = StreamWriter<v1::VocabularyChunk>::Create(
      context, &KeepApart, {.done = [page = metrics_](absl::StatusCode code) {
        CountOutcome(*page, "GetVocabulary", code);
      }});
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  if (!parts.ok()) {
    writer->End(parts.status(), parts.status().code());
    return writer.get();
  }
  const std::string& bytes = (*parts)->vocabulary->bytes;
  for (size_t at = 0; at < bytes.size(); at += kChunkBytes) {
    v1::VocabularyChunk chunk;
    chunk.set_data(bytes.substr(at, kChunkBytes));
    writer->Push(std::move(chunk), 0);
  }
  writer->End(absl::OkStatus(), absl::StatusCode::kOk);
  return writer.get();
}

grpc::ServerWriteReactor<v1::WorkerLoad>* WorkerService::WatchLoad(
    grpc::CallbackServerContext* context, const v1::WatchLoadRequest* request) {
  absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  if (const absl::Status valid = ValidateWatchLoad(*request); !valid.ok()) parts = valid;
  Engine* const engine = parts.ok() ? (*parts)->engine : nullptr;
  const std::string router_id = request->router_id();
  const auto self = std::make_shared<std::weak_ptr<Watch>>();
  const auto writer = Watch::Create(
      context, &Replace, {.done = [this, self, engine, router_id](absl::StatusCode code) {
        if (engine != nullptr && !router_id.empty()) engine->RouterLeft(router_id);
        absl::MutexLock lock(&mutex_);
        watches_.remove(self->lock());
        CountOutcome(*metrics_, "WatchLoad", code);
      }});
  *self = writer;
  if (!parts.ok()) {
    writer->End(parts.status(), parts.status().code());
    return writer.get();
  }
  if (!router_id.empty()) engine->RouterJoined(router_id);
  writer->Push(ToMessage(engine->load(), **parts), 0);
  bool stopping = false;
  {
    absl::MutexLock lock(&mutex_);
    stopping = stopping_;
    if (!stopping) watches_.push_back(writer);
  }
  if (stopping) writer->End(absl::OkStatus(), absl::StatusCode::kOk);
  return writer.get();
}

grpc::ServerUnaryReactor* WorkerService::Drain(grpc::CallbackServerContext* context,
                                               const v1::DrainRequest* request,
                                               v1::DrainResponse*) {
  const absl::StatusOr<const ServingParts*> parts = gate_->Enter();
  const absl::Status valid = parts.ok() ? ValidateDrain(*request) : parts.status();
  if (valid.ok()) {
    begin_drain_(request->has_timeout_seconds() ? absl::Seconds(request->timeout_seconds())
                                                : options_.drain_timeout);
  }
  return FinishUnary(*context, *metrics_, "Drain", valid);
}

}  // namespace tandem
