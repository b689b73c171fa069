#include "tests/unit/router/fake_verifier.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/random.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "tests/unit/router/demo_vocabulary.h"

namespace tandem {

class FakeGeneration final : public v1::GenerationService::Service {
 public:
  explicit FakeGeneration(FakeVerifier* fake) : fake_(fake) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    Call call = {.context = context, .request = request, .writer = writer};
    const grpc::Status refused = Admit(call);
    if (!refused.ok()) return refused;
    const grpc::Status status = Run(call);
    const absl::MutexLock lock(&fake_->mutex_);
    fake_->live_.erase(request->request_id());
    if (context->IsCancelled()) ++fake_->cancelled_;
    return status;
  }

  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest* request,
                      v1::CancelResponse*) override {
    const absl::MutexLock lock(&fake_->mutex_);
    const auto live = fake_->live_.find(request->request_id());
    if (live != fake_->live_.end()) {
      if (request->has_retain_tokens()) live->second.retain = request->retain_tokens();
      live->second.dropped = !request->has_retain_tokens();
      return grpc::Status::OK;
    }
    const auto finished = fake_->finished_.find(request->request_id());
    if (finished == fake_->finished_.end()) return {grpc::StatusCode::NOT_FOUND, "unknown"};
    const auto session = fake_->sessions_.find(finished->second.session);
    if (session != fake_->sessions_.end() && request->has_retain_tokens()) {
      session->second.resize(finished->second.begin + request->retain_tokens());
    }
    return grpc::Status::OK;
  }

 private:
  struct Call {
    grpc::ServerContext* context;
    const v1::GenerateRequest* request;
    grpc::ServerWriter<v1::GenerateResponse>* writer;
    FakeBehaviour behaviour = {};
    std::vector<uint32_t> before = {};  // the session's tokens, then the prompt's
    size_t next = 0;                    // index of the next token of the reply
    size_t round = 0;
  };

  grpc::Status Admit(Call& call) {
    const absl::MutexLock lock(&fake_->mutex_);
    const v1::GenerateRequest& request = *call.request;
    fake_->requests_.push_back(request);
    fake_->metadata_.clear();
    for (const auto& [key, value] : call.context->client_metadata()) {
      fake_->metadata_[{key.data(), key.size()}] = {value.data(), value.size()};
    }
    FakeBehaviour& behaviour = fake_->behaviour_;
    if (behaviour.refusals > 0) {
      --behaviour.refusals;
      return behaviour.refusal;
    }
    if (!behaviour.accepting) return {grpc::StatusCode::UNAVAILABLE, "draining"};
    if (request.has_session()) {
      const auto session = fake_->sessions_.find(request.session().session_id());
      if (session == fake_->sessions_.end()) return {grpc::StatusCode::NOT_FOUND, "no session"};
      if (request.session().expected_position() != session->second.size()) {
        return {grpc::StatusCode::FAILED_PRECONDITION, "position"};
      }
      call.before = session->second;
    }
    const auto& ids = request.tokens().ids();
    call.before.insert(call.before.end(), ids.begin(), ids.end());
    const auto& emitted = request.resume().emitted_ids();
    call.next = static_cast<size_t>(emitted.size());
    if (call.next > behaviour.script.size() ||
        !std::equal(emitted.begin(), emitted.end(), behaviour.script.begin())) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "emitted_ids are not the script's"};
    }
    call.behaviour = behaviour;
    fake_->live_[request.request_id()] = {};
    return grpc::Status::OK;
  }

  // Reads and clears what is due at token `next`.
  bool TakeBreak(size_t next) {
    const absl::MutexLock lock(&fake_->mutex_);
    auto& breaks = fake_->behaviour_.breaks_at;
    const auto due = std::find(breaks.begin(), breaks.end(), next);
    if (due == breaks.end()) return false;
    breaks.erase(due);
    return true;
  }
  bool TakeFailure(size_t next) {
    const absl::MutexLock lock(&fake_->mutex_);
    if (fake_->behaviour_.fails_at != next) return false;
    fake_->behaviour_.fails_at.reset();
    return true;
  }
  FakeVerifier::Live LiveState(const Call& call) {
    const absl::MutexLock lock(&fake_->mutex_);
    return fake_->live_[call.request->request_id()];
  }
  bool stopping() {
    const absl::MutexLock lock(&fake_->mutex_);
    return fake_->stopping_;
  }

  grpc::Status Run(Call& call) {
    v1::GenerateResponse response;
    v1::Started& started = *response.mutable_started();
    started.set_seed(call.request->sampling().seed());
    started.set_prompt_tokens(call.request->tokens().ids_size());
    started.set_cached_prompt_tokens(static_cast<uint32_t>(call.before.size()) -
                                     call.request->tokens().ids_size());
    call.writer->Write(response);
    for (;;) {
      if (TakeBreak(call.next)) return {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
      if (TakeFailure(call.next)) {
        *response.mutable_failed() = call.behaviour.failure;
        call.writer->Write(response);
        return grpc::Status::OK;
      }
      absl::SleepFor(call.behaviour.step);
      const FakeVerifier::Live live = LiveState(call);
      if (call.context->IsCancelled() || stopping()) return grpc::Status::CANCELLED;
      if (live.dropped) return grpc::Status::CANCELLED;
      if (live.retain.has_value()) {
        return Finish(call, v1::FINISH_REASON_STOP_TEXT, *live.retain, 0);
      }
      v1::Delta delta;
      const std::optional<v1::FinishReason> reason = Step(call, delta);
      if (delta.token_ids_size() > 0) {
        *response.mutable_delta() = delta;
        if (!call.writer->Write(response)) return grpc::Status::CANCELLED;
      }
      if (reason.has_value()) return Finish(call, *reason, call.next, StopToken(call));
    }
  }

  bool IsStop(const Call& call, uint32_t id) {
    const v1::StoppingParameters& stopping = call.request->stopping();
    const auto& ids = stopping.stop_token_ids();
    return (id == 0 && !stopping.ignore_eos()) ||
           std::find(ids.begin(), ids.end(), id) != ids.end();
  }
  uint32_t StopToken(const Call& call) {
    if (call.request->stopping().include_stop_in_output()) {
      return call.next > 0 ? call.behaviour.script[call.next - 1] : 0;
    }
    return call.next < call.behaviour.script.size() ? call.behaviour.script[call.next] : 0;
  }

  // One round. The tokens are walked in order; the first terminal condition wins. A round never
  // runs over a break, so that every token can be the last one.
  std::optional<v1::FinishReason> Step(Call& call, v1::Delta& delta) {
    const int size = call.behaviour.rounds[call.round++ % call.behaviour.rounds.size()];
    const std::vector<uint32_t>& script = call.behaviour.script;
    std::optional<v1::FinishReason> reason;
    for (int i = 0; i < size && !reason.has_value(); ++i) {
      CHECK(call.next < script.size()) << "the script is too short";
      const uint32_t id = script[call.next];
      const bool stop = IsStop(call, id);
      if (stop && !call.request->stopping().include_stop_in_output()) {
        reason = v1::FINISH_REASON_STOP_TOKEN;
        break;
      }
      AddToken(call, id, delta);
      if (stop) reason = v1::FINISH_REASON_STOP_TOKEN;
      if (++call.next == call.request->stopping().max_tokens() && !reason.has_value()) {
        reason = v1::FINISH_REASON_MAX_TOKENS;
      }
      if (BreakDue(call.next)) break;
    }
    if (delta.token_ids_size() > 0) {
      v1::Round& round = *delta.add_rounds();
      round.set_tokens(delta.token_ids_size());
      round.set_drafted(call.behaviour.drafted);
      round.set_accepted(std::min(call.behaviour.drafted, delta.token_ids_size() - 1));
    }
    return BreakDue(call.next) ? std::nullopt : reason;
  }

  bool BreakDue(size_t next) {
    const absl::MutexLock lock(&fake_->mutex_);
    const auto& breaks = fake_->behaviour_.breaks_at;
    return fake_->behaviour_.fails_at == next ||
           std::find(breaks.begin(), breaks.end(), next) != breaks.end();
  }

  void AddToken(const Call& call, uint32_t id, v1::Delta& delta) {
    delta.add_token_ids(id);
    if (!call.request->output().has_top_logprobs()) return;
    v1::TokenLogprob& logprob = *delta.add_logprobs();
    logprob.set_token_id(id);
    logprob.set_logprob(-static_cast<float>(call.next));
    for (uint32_t i = 0; i < call.request->output().top_logprobs(); ++i) {
      logprob.add_top()->set_token_id(i);
    }
  }

  grpc::Status Finish(Call& call, v1::FinishReason reason, size_t kept, uint32_t stop_token) {
    std::vector<uint32_t> tokens = call.before;
    tokens.insert(tokens.end(), call.behaviour.script.begin(),
                  call.behaviour.script.begin() + static_cast<int64_t>(kept));
    {
      const absl::MutexLock lock(&fake_->mutex_);
      // A cut that came with the last round.
      const auto& retain = fake_->live_[call.request->request_id()].retain;
      if (retain.has_value()) tokens.resize(call.before.size() + *retain);
      const std::string& session = call.request->session().session_id();
      if (!session.empty()) fake_->sessions_[session] = tokens;
      fake_->finished_[call.request->request_id()] = {.session = session,
                                                      .begin = call.before.size()};
      fake_->live_.erase(call.request->request_id());
    }
    v1::GenerateResponse response;
    v1::Finished& finished = *response.mutable_finished();
    finished.set_reason(reason);
    if (reason == v1::FINISH_REASON_STOP_TOKEN) finished.set_stop_token_id(stop_token);
    finished.set_position(tokens.size());
    finished.mutable_timings()->set_queue_seconds(0.25);
    finished.mutable_timings()->set_prefill_seconds(0.5);
    call.writer->Write(response);
    return grpc::Status::OK;
  }

  FakeVerifier* const fake_;
};

class FakeSessions final : public v1::SessionService::Service {
 public:
  explicit FakeSessions(FakeVerifier* fake) : fake_(fake) {}
  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest* request,
                           v1::Session* response) override {
    const absl::MutexLock lock(&fake_->mutex_);
    fake_->router_ids_.insert(request->router_id());
    if (fake_->sessions_.size() >= fake_->behaviour_.max_sessions.value_or(1000)) {
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, "sessions"};
    }
    if (!fake_->sessions_.emplace(request->session_id(), std::vector<uint32_t>()).second) {
      return {grpc::StatusCode::ALREADY_EXISTS, "taken"};
    }
    response->set_session_id(request->session_id());
    return grpc::Status::OK;
  }
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest* request,
                            v1::CloseSessionResponse*) override {
    const absl::MutexLock lock(&fake_->mutex_);
    return fake_->sessions_.erase(request->session_id()) > 0
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::NOT_FOUND, "unknown");
  }

 private:
  FakeVerifier* const fake_;
};

class FakeWorker final : public v1::WorkerService::Service {
 public:
  explicit FakeWorker(FakeVerifier* fake) : fake_(fake) {}
  grpc::Status GetWorker(grpc::ServerContext*, const v1::GetWorkerRequest*,
                         v1::GetWorkerResponse* response) override {
    const absl::MutexLock lock(&fake_->mutex_);
    response->set_instance_id(fake_->instance_id_);
    Hasher hasher;
    hasher.Update(DemoVocabularyText());
    response->set_vocabulary_hash(HashHex(hasher.Digest()));
    v1::GetModelResponse& model = *response->mutable_model();
    model.set_name("fake");
    model.set_hash(fake_->behaviour_.model_hash);
    model.set_weight_format(fake_->behaviour_.weight_format);
    model.set_vocabulary_size(4096);
    model.set_max_prompt_tokens(fake_->behaviour_.max_prompt_tokens);
    model.set_max_tokens(100'000);
    return grpc::Status::OK;
  }
  grpc::Status GetVocabulary(grpc::ServerContext*, const v1::GetVocabularyRequest*,
                             grpc::ServerWriter<v1::VocabularyChunk>* writer) override {
    const std::string& text = DemoVocabularyText();
    for (size_t at = 0; at < text.size(); at += 10'000) {
      v1::VocabularyChunk chunk;
      chunk.set_data(text.substr(at, 10'000));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }
  grpc::Status WatchLoad(grpc::ServerContext* context, const v1::WatchLoadRequest* request,
                         grpc::ServerWriter<v1::WorkerLoad>* writer) override {
    for (;;) {
      v1::WorkerLoad load;
      {
        const absl::MutexLock lock(&fake_->mutex_);
        if (fake_->stopping_) return grpc::Status::OK;
        load.set_instance_id(fake_->instance_id_);
        load.set_accepting(fake_->behaviour_.accepting);
        fake_->router_ids_.insert(request->router_id());
        load.set_sessions(static_cast<uint32_t>(fake_->sessions_.size()));
        const std::optional<uint32_t> max_sessions = fake_->behaviour_.max_sessions;
        if (max_sessions.has_value()) load.set_max_sessions(*max_sessions);
        load.set_state_slots(fake_->behaviour_.slots);
        load.set_state_slots_used(fake_->behaviour_.slots_used +
                                  static_cast<uint32_t>(fake_->live_.size()));
        load.mutable_drafter()->set_attached(true);
      }
      if (context->IsCancelled() || !writer->Write(load)) return grpc::Status::OK;
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

 private:
  FakeVerifier* const fake_;
};

struct FakeVerifier::Services {
  explicit Services(FakeVerifier* fake) : generation(fake), sessions(fake), worker(fake) {}
  FakeGeneration generation;
  FakeSessions sessions;
  FakeWorker worker;
};

FakeVerifier::FakeVerifier(FakeBehaviour behaviour)
    : behaviour_(std::move(behaviour)), services_(std::make_unique<Services>(this)) {
  Start();
}

FakeVerifier::~FakeVerifier() { Kill(); }

void FakeVerifier::Start() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = false;
    instance_id_ = RandomId();
    sessions_.clear();
    live_.clear();
    finished_.clear();
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", port_), grpc::InsecureServerCredentials(),
                           &port_);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.RegisterService(&services_->generation);
  builder.RegisterService(&services_->sessions);
  builder.RegisterService(&services_->worker);
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

void FakeVerifier::Kill() {
  if (server_ == nullptr) return;
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

std::string FakeVerifier::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::vector<v1::GenerateRequest> FakeVerifier::requests() const {
  const absl::MutexLock lock(&mutex_);
  return requests_;
}

std::set<std::string> FakeVerifier::router_ids() const {
  const absl::MutexLock lock(&mutex_);
  return router_ids_;
}

std::map<std::string, std::vector<uint32_t>> FakeVerifier::sessions() const {
  const absl::MutexLock lock(&mutex_);
  return sessions_;
}

void FakeVerifier::DropSessions() {
  const absl::MutexLock lock(&mutex_);
  sessions_.clear();
}

std::string FakeVerifier::last_metadata(const std::string& key) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? "" : found->second;
}

}  // namespace tandem
