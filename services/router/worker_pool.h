#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/router/periodic.h"
#include "services/router/served_model.h"
#include "services/router/worker.h"

namespace tandem {

// Hears what becomes of the verifiers; from any thread, in order.
class WorkerPoolListener {
 public:
  virtual ~WorkerPoolListener() = default;
  // Once, before the first worker is usable.
  virtual void ModelAdopted(const ServedModel& model) = 0;
  // How many workers are usable now; the model is there if there is one.
  virtual void UsableChanged(int usable) = 0;
};

// The verifiers behind --verifiers. Names are resolved again and again, each address is a worker;
// all have to serve the model of the first one. Thread-safe.
class WorkerPool final : public WorkerAdmission {
 public:
  struct Options {
    std::vector<std::string> targets = {};  // host:port or unix:path
    int max_message_bytes = 4 << 20;
    std::string router_id = {};  // as Worker::Options
    absl::Duration resolve_interval = absl::Seconds(5);
    // Vocabulary file text to use instead of the verifiers' own; empty: theirs.
    std::string vocabulary_text = {};
  };

  // `listener` outlives the pool. INVALID_ARGUMENT for a malformed target.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Create(const Options& options,
                                                            WorkerPoolListener* listener);
  ~WorkerPool() override;

  // The least loaded usable worker but `avoid`, which may be null; null if there is none. Workers
  // without room for another session come last where `opens_session`.
  std::shared_ptr<Worker> Pick(const Worker* avoid, bool opens_session = false) const;
  // Sessions that the usable workers together would still open; absent where there is none to ask
  // or one that knows no limit.
  std::optional<uint64_t> SessionRoom() const;
  // The model that the first admitted verifier serves. NotReady until there is one.
  absl::StatusOr<std::shared_ptr<const ServedModel>> Served() const;
  // Drafter of a usable worker.
  v1::DrafterStatus drafter() const;
  // "no verifier is ready: <address>: <why>; ..."
  absl::Status NotReady() const;

  absl::Status Admit(const v1::GetWorkerResponse& info, Worker& worker) override;
  void StandingChanged() override;

 private:
  WorkerPool(const Options& options, WorkerPoolListener* listener);
  void Resolve();
  void Tick();
  // The text of the vocabulary, checked against the hash.
  absl::StatusOr<std::string> VocabularyText(const v1::GetWorkerResponse& info, Worker& worker);
  std::vector<std::shared_ptr<Worker>> Workers() const;
  // Of each worker; two addresses of one process count once.
  static std::vector<WorkerStanding> Standings(const std::vector<std::shared_ptr<Worker>>& workers);
  // Null until the first verifier was admitted.
  std::shared_ptr<const ServedModel> model() const;

  const Options options_;
  WorkerPoolListener* const listener_;
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const ServedModel> model_ ABSL_GUARDED_BY(mutex_);
  absl::Status resolve_error_ ABSL_GUARDED_BY(mutex_);
  // One admission at a time, so that the first model wins.
  absl::Mutex admission_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  // Keeps the order of reports.
  absl::Mutex report_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  int reported_usable_ ABSL_GUARDED_BY(report_mutex_) = 0;
  absl::Time last_resolve_ = absl::InfinitePast();  // of the ticker's thread
  std::unique_ptr<Periodic> ticker_;
};

}  // namespace tandem
