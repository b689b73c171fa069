#include "common/rpc/server.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/rpc/unparsed_requests.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace tandem {
namespace {

// What a call that has nothing left to do gets to reach its client.
constexpr std::chrono::milliseconds kFlushGrace(1000);
constexpr absl::Duration kForcedEnd = absl::Seconds(10);

constexpr char kLiveness[] = "liveness";
constexpr char kReadiness[] = "readiness";

void AddArguments(grpc::ServerBuilder& builder) {
  // Without this a second server on a taken port would start and share its clients.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
}

void EnablePlugins() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerRunner>> ServerRunner::Start(const ServerOptions& options) {
  EnablePlugins();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(options.address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  AddArguments(builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> interceptors;
  interceptors.push_back(ExplainUnparsedRequests(options.page));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
  for (grpc::Service* service : options.services) builder.RegisterService(service);
  std::unique_ptr<ServerRunner> runner(new ServerRunner());
  runner->server_ = builder.BuildAndStart();
  const bool is_unix = absl::StartsWith(options.address, "unix:");
  if (runner->server_ == nullptr || (port <= 0 && !is_unix)) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.address,
                     "; choose a free port, or 0 for any, with --address"));
  }
  runner->health_names_ = options.health_names;
  runner->port_ = is_unix ? 0 : port;
  runner->address_ =
      is_unix ? options.address
              : absl::StrCat(options.address.substr(0, options.address.rfind(':')), ":", port);
  runner->SetServing(false);
  runner->SetLive(true);
  return runner;
}

ServerRunner::~ServerRunner() {
  if (server_ != nullptr) Shutdown();
  if (!ready_path_.empty()) unlink(ready_path_.c_str());
}

void ServerRunner::SetServing(bool serving) {
  const absl::MutexLock lock(&mutex_);
  serving = serving && !stopping_;
  grpc::HealthCheckServiceInterface* const health = server_->GetHealthCheckService();
  for (const std::string& name : health_names_) health->SetServingStatus(name, serving);
  health->SetServingStatus(kReadiness, serving);
  health->SetServingStatus("", serving);
}

void ServerRunner::SetLive(bool live) {
  server_->GetHealthCheckService()->SetServingStatus(kLiveness, live);
}

absl::Status ServerRunner::WriteReadyFile(ReadyFile file) {
  file.address = address_;
  file.port = port_;
  RETURN_IF_ERROR(tandem::WriteReadyFile(file));
  ready_path_ = file.path;
  return absl::OkStatus();
}

void ServerRunner::Run(StopSignals& signals, absl::Duration drain_timeout,
                       const std::function<void()>& begin_drain) {
  while (signals.Wait(absl::InfiniteDuration()) != StopSignals::Event::kSignal) continue;
  LOG(INFO) << "stopping: new work is refused, running requests get "
            << absl::FormatDuration(drain_timeout);
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
    signals_ = &signals;
  }
  SetServing(false);
  begin_drain();
  const absl::Time deadline = absl::Now() + drain_timeout;
  StopSignals::Event event = StopSignals::Event::kWake;
  while (!IsDrained() && event == StopSignals::Event::kWake) {
    event = signals.Wait(deadline - absl::Now());
  }
  {
    const absl::MutexLock lock(&mutex_);
    signals_ = nullptr;
  }
  const bool drained = IsDrained();
  if (!drained) LOG(WARNING) << "requests are left; they are cancelled";
  ShutdownWithin(drained);
}

void ServerRunner::Drained() {
  const absl::MutexLock lock(&mutex_);
  drained_ = true;
  if (signals_ != nullptr) signals_->Wake();
}

bool ServerRunner::IsDrained() const {
  const absl::MutexLock lock(&mutex_);
  return drained_;
}

void ServerRunner::ShutdownWithin(bool flush) {
  absl::Notification ended;
  std::thread guard([&ended] {
    if (ended.WaitForNotificationWithTimeout(kForcedEnd)) return;
    LOG(ERROR) << "the server does not end; leaving without it";
    _Exit(1);
  });
  const auto now = std::chrono::system_clock::now();
  server_->Shutdown(flush ? now + kFlushGrace : now);
  server_->Wait();
  ended.Notify();
  guard.join();
}

void ServerRunner::Shutdown() { ShutdownWithin(false); }

}  // namespace tandem
