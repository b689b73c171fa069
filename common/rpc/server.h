#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/metrics/metrics_page.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/stop_signals.h"
#include "grpcpp/server.h"

namespace tandem {

struct ServerOptions {
  // host:port or unix:path; port 0 takes a free one.
  std::string address = "127.0.0.1:0";
  // Callback services; they outlive the server.
  std::vector<grpc::Service*> services = {};
  // Full names of the public services that the health service answers for, besides "", "liveness"
  // and "readiness".
  std::vector<std::string> health_names = {};
  int max_receive_bytes = 4 << 20;
  // Where requests that do not parse are counted; outlives the server. Null: nowhere.
  MetricsPage* page = nullptr;
};

// One gRPC server with reflection, grpc.health.v1, keepalive and an orderly end.
// Thread-safe after Start, but for one WriteReadyFile at a time.
class ServerRunner final {
 public:
  // Listens at once: NOT_SERVING, alive. UNAVAILABLE naming the address when it cannot be bound.
  static absl::StatusOr<std::unique_ptr<ServerRunner>> Start(const ServerOptions& options);
  ~ServerRunner();
  ServerRunner(const ServerRunner&) = delete;
  ServerRunner& operator=(const ServerRunner&) = delete;

  // The bound port, 0 for a unix socket; the address with that port in it.
  int port() const { return port_; }
  const std::string& address() const { return address_; }

  // Health of "", "readiness" and every public service. Ignored once a stop has begun.
  void SetServing(bool serving);
  // Health of "liveness".
  void SetLive(bool live);

  // As the function of that name, with this server's address and port. Removed again by the
  // destructor.
  absl::Status WriteReadyFile(ReadyFile file);

  // Serves until a stop signal. Then NOT_SERVING, `begin_drain` (which must not block: it refuses
  // new work and has `Drained` called once nothing is left), and a wait for Drained,
  // `drain_timeout` or a second signal, whichever is first. Calls that are left are cancelled, and
  // the server is gone when Run returns; a server that does not end within 10 s after that ends the
  // process.
  void Run(StopSignals& signals, absl::Duration drain_timeout,
           const std::function<void()>& begin_drain);
  // From any thread, also before Run waits for it.
  void Drained();

  // Ends at once: cancels what runs.
  void Shutdown();

 private:
  ServerRunner() = default;
  // `flush`: calls get a moment to deliver what they have said already.
  void ShutdownWithin(bool flush);
  bool IsDrained() const;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> health_names_;
  std::string address_;
  int port_ = 0;
  std::string ready_path_;

  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  StopSignals* signals_ ABSL_GUARDED_BY(mutex_) = nullptr;  // while Run waits
};

}  // namespace tandem
