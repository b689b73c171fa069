#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics.h"
#include "common/rpc/server.h"
#include "services/router/generation_service.h"
#include "services/router/live_requests.h"
#include "services/router/periodic.h"
#include "services/router/relay.h"
#include "services/router/session_service.h"
#include "services/router/session_table.h"
#include "services/router/worker_pool.h"

namespace tandem {

// The router process: public services in front, verifiers behind.
class Router final : public WorkerPoolListener {
 public:
  struct Options {
    std::string address = "127.0.0.1:50051";
    std::string metrics_address = {};  // empty: no page
    // The router chooses its own router_id.
    WorkerPool::Options pool = {};
    RelayOptions relay = {};
    absl::Duration default_timeout = absl::Minutes(10);
    int max_message_bytes = 4 << 20;
    size_t max_sessions = 10'000;
    // Written when the first verifier is usable; empty: none.
    std::string ready_file = {};
  };

  // Listens at once; serving once a verifier is usable and the vocabulary is there.
  static absl::StatusOr<std::unique_ptr<Router>> Start(const Options& options);
  // Ends every call, then everything else.
  ~Router() override;

  ServerRunner& server() { return *server_; }
  MetricsPage& metrics_page() { return *page_; }
  // Refuses new work; the server hears when nothing is left.
  void BeginDrain();

  void ModelAdopted(const ServedModel& model) override;
  void UsableChanged(int usable) override;

 private:
  explicit Router(const Options& options);
  RouterParts Parts();
  void CloseOnVerifier(const SessionPlace& place) const;
  // Tells the health service, and writes the ready file the first time.
  void ShowReadiness() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_);

  Options options_;
  std::unique_ptr<MetricsPage> page_;
  // Created once its `model` label is known, before any request is taken.
  std::unique_ptr<RouterMetrics> metrics_;
  std::atomic<RouterMetrics*> adopted_metrics_ = nullptr;
  RelayCount relay_count_;
  RelayContext relay_context_;
  LiveRequests live_;
  std::unique_ptr<SessionTable> sessions_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<RouterGenerationService> generation_service_;
  std::unique_ptr<RouterSessionService> session_service_;
  absl::Mutex health_mutex_;
  bool ready_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool announced_ ABSL_GUARDED_BY(health_mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(health_mutex_) = false;
  ServerRunner* health_ ABSL_GUARDED_BY(health_mutex_) = nullptr;
  std::unique_ptr<ServerRunner> server_;
  std::unique_ptr<Periodic> expiry_;
};

}  // namespace tandem
