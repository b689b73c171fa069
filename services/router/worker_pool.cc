#include "services/router/worker_pool.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/status.h"
#include "services/router/resolve.h"

namespace tandem {
namespace {

constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kRetryDelay = absl::Seconds(1);

// A reply that moves to another verifier goes on with exactly its next token only where both round
// alike.
absl::Status CheckSameArithmetic(const v1::GetModelResponse& served,
                                 const v1::GetModelResponse& offered) {
  if (served.weight_format() == offered.weight_format() && served.backend() == offered.backend()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("its weights are ", offered.weight_format(), " on the ", offered.backend(),
                   " backend, those of the others ", served.weight_format(), " on the ",
                   served.backend(), " backend; all have to compute alike"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerPool>> WorkerPool::Create(const Options& options,
                                                               WorkerPoolListener* listener) {
  if (options.targets.empty()) {
    return absl::InvalidArgumentError("no verifier is given; name at least one with --verifiers");
  }
  for (const std::string& target : options.targets) {
    const auto addresses = ResolveTarget(target);
    if (absl::IsInvalidArgument(addresses.status())) return addresses.status();
  }
  std::unique_ptr<WorkerPool> pool(new WorkerPool(options, listener));
  pool->Resolve();
  pool->ticker_ = std::make_unique<Periodic>(kTick, [raw = pool.get()] { raw->Tick(); });
  return pool;
}

WorkerPool::WorkerPool(const Options& options, WorkerPoolListener* listener)
    : options_(options), listener_(listener) {}

WorkerPool::~WorkerPool() {
  ticker_.reset();
  std::vector<std::shared_ptr<Worker>> workers;
  {
    const absl::MutexLock lock(&mutex_);
    workers.swap(workers_);
  }
  for (const auto& worker : workers) worker->Stop();
}

std::vector<std::shared_ptr<Worker>> WorkerPool::Workers() const {
  const absl::MutexLock lock(&mutex_);
  return workers_;
}

void WorkerPool::Tick() {
  const absl::Time now = absl::Now();
  for (const auto& worker : Workers()) worker->CheckSilence(now);
  if (now - last_resolve_ >= options_.resolve_interval) Resolve();
  // A suspicion ends without an event.
  StandingChanged();
}

void WorkerPool::Resolve() {
  last_resolve_ = absl::Now();
  std::set<std::string> found;
  absl::Status error;
  for (const std::string& target : options_.targets) {
    const auto addresses = ResolveTarget(target);
    if (!addresses.ok()) error = addresses.status();
    if (addresses.ok()) found.insert(addresses->begin(), addresses->end());
  }
  std::vector<std::shared_ptr<Worker>> kept;
  std::vector<std::shared_ptr<Worker>> dropped;
  for (const auto& worker : Workers()) {
    const bool named = found.erase(worker->address()) > 0;
    // A failing name server is no reason to part from a verifier that works.
    const bool keep = named || worker->status().standing.usable || !error.ok();
    (keep ? kept : dropped).push_back(worker);
  }
  for (const std::string& address : found) {
    kept.push_back(
        std::make_shared<Worker>(address,
                                 Worker::Options{.max_message_bytes = options_.max_message_bytes,
                                                 .router_id = options_.router_id},
                                 this));
  }
  {
    const absl::MutexLock lock(&mutex_);
    workers_ = std::move(kept);
    resolve_error_ = error;
  }
  // Outside of the lock: a worker's end waits for its thread, which may ask the pool.
  for (const auto& worker : dropped) worker->Stop();
}

std::vector<WorkerStanding> WorkerPool::Standings(
    const std::vector<std::shared_ptr<Worker>>& workers) {
  std::vector<WorkerStanding> standings;
  standings.reserve(workers.size());
  std::set<std::string> instances;
  for (const auto& worker : workers) {
    const Worker::Status status = worker->status();
    standings.push_back(status.standing);
    if (!instances.insert(status.instance_id).second) standings.back().usable = false;
  }
  return standings;
}

std::shared_ptr<Worker> WorkerPool::Pick(const Worker* avoid, bool opens_session) const {
  const std::vector<std::shared_ptr<Worker>> workers = Workers();
  std::vector<WorkerStanding> standings = Standings(workers);
  for (size_t i = 0; i < workers.size(); ++i) {
    if (workers[i].get() == avoid) standings[i].usable = false;
  }
  std::vector<WorkerStanding> roomy = standings;
  for (WorkerStanding& standing : roomy) {
    if (opens_session && standing.session_room == 0) standing.usable = false;
  }
  int best = LeastLoaded(roomy);
  if (best < 0) best = LeastLoaded(standings);
  return best < 0 ? nullptr : workers[best];
}

std::optional<uint64_t> WorkerPool::SessionRoom() const {
  std::optional<uint64_t> room;
  for (const WorkerStanding& standing : Standings(Workers())) {
    if (!standing.usable) continue;
    if (standing.session_room == kUnlimited) return std::nullopt;
    room = room.value_or(0) + standing.session_room;
  }
  return room;
}

std::shared_ptr<const ServedModel> WorkerPool::model() const {
  const absl::MutexLock lock(&mutex_);
  return model_;
}

absl::StatusOr<std::shared_ptr<const ServedModel>> WorkerPool::Served() const {
  std::shared_ptr<const ServedModel> served = model();
  if (served == nullptr) return NotReady();
  return served;
}

v1::DrafterStatus WorkerPool::drafter() const {
  const std::shared_ptr<Worker> worker = Pick(nullptr);
  return worker == nullptr ? v1::DrafterStatus() : worker->status().load.drafter();
}

absl::Status WorkerPool::NotReady() const {
  std::string reasons;
  for (const auto& worker : Workers()) {
    const Worker::Status status = worker->status();
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", worker->address(), ": ",
                    status.error.ok() ? "connecting" : std::string(status.error.message()));
  }
  const absl::MutexLock lock(&mutex_);
  if (!resolve_error_.ok()) {
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", resolve_error_.message());
  }
  return RetryLaterError(absl::StatusCode::kUnavailable, "NO_VERIFIER",
                         absl::StrCat("no verifier is ready: ", reasons), kRetryDelay);
}

absl::StatusOr<std::string> WorkerPool::VocabularyText(const v1::GetWorkerResponse& info,
                                                       Worker& worker) {
  if (!options_.vocabulary_text.empty()) return options_.vocabulary_text;
  ASSIGN_OR_RETURN(const std::string text, worker.FetchVocabulary());
  if (text.empty()) {
    return absl::FailedPreconditionError(
        "its model folder has no vocabulary; give the router one with --vocab");
  }
  Hasher hasher;
  hasher.Update(text);
  const std::string hash = HashHex(hasher.Digest());
  if (hash != info.vocabulary_hash()) {
    return absl::DataLossError(absl::StrCat("its vocabulary has the hash ", hash, ", it announced ",
                                            info.vocabulary_hash()));
  }
  return text;
}

absl::Status WorkerPool::Admit(const v1::GetWorkerResponse& info, Worker& worker) {
  const absl::MutexLock admission_lock(&admission_mutex_);
  if (const auto served = model(); served != nullptr) {
    if (served->model.hash() == info.model().hash() &&
        served->vocabulary_hash == info.vocabulary_hash()) {
      return CheckSameArithmetic(served->model, info.model());
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "it serves the model ", info.model().name(), " ", info.model().hash(), " (vocabulary ",
        info.vocabulary_hash(), "), the others ", served->model.name(), " ", served->model.hash(),
        " (vocabulary ", served->vocabulary_hash, "); all have to serve the same"));
  }
  ASSIGN_OR_RETURN(const std::string text, VocabularyText(info, worker));
  ASSIGN_OR_RETURN(Vocabulary vocabulary,
                   Vocabulary::Parse(text, "the vocabulary of the model",
                                     static_cast<int32_t>(info.model().vocabulary_size())));
  auto served = std::make_shared<ServedModel>();
  served->model = info.model();
  served->vocabulary_hash = info.vocabulary_hash();
  served->vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  LOG(INFO) << "serving " << info.model().name() << " " << info.model().hash();
  listener_->ModelAdopted(*served);
  const absl::MutexLock lock(&mutex_);
  model_ = std::move(served);
  return absl::OkStatus();
}

void WorkerPool::StandingChanged() {
  const absl::MutexLock report_lock(&report_mutex_);
  int usable = 0;
  for (const auto& worker : Workers()) usable += worker->status().standing.usable ? 1 : 0;
  if (usable == reported_usable_) return;
  reported_usable_ = usable;
  listener_->UsableChanged(usable);
}

}  // namespace tandem
