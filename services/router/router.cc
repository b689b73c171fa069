#include "services/router/router.h"

#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "services/router/call_unary.h"

namespace tandem {
namespace {

constexpr absl::Duration kExpiryInterval = absl::Seconds(1);
constexpr absl::Duration kCloseTimeout = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<Router>> Router::Start(const Options& options) {
  std::unique_ptr<Router> router(new Router(options));
  ASSIGN_OR_RETURN(router->page_, MetricsPage::Create(options.metrics_address));
  SetServingState(*router->page_, "loading");
  router->relay_context_.page = router->page_.get();
  ASSIGN_OR_RETURN(router->pool_, WorkerPool::Create(router->options_.pool, router.get()));
  router->relay_context_.pool = router->pool_.get();
  const RouterParts parts = router->Parts();
  router->generation_service_ = std::make_unique<RouterGenerationService>(parts);
  router->session_service_ = std::make_unique<RouterSessionService>(parts);
  ASSIGN_OR_RETURN(router->server_,
                   ServerRunner::Start({.address = options.address,
                                        .services = {router->generation_service_.get(),
                                                     router->session_service_.get()},
                                        .health_names = {v1::GenerationService::service_full_name(),
                                                         v1::SessionService::service_full_name()},
                                        .max_receive_bytes = options.max_message_bytes,
                                        .page = router->page_.get()}));
  // Not before it has its ports: another router on them keeps its file.
  RETURN_IF_ERROR(PrepareReadyFile(options.ready_file));
  {
    const absl::MutexLock lock(&router->health_mutex_);
    router->health_ = router->server_.get();
    router->ShowReadiness();
  }
  router->expiry_ = std::make_unique<Periodic>(
      kExpiryInterval, [table = router->sessions_.get()] { table->Expire(absl::Now()); });
  return router;
}

Router::Router(const Options& options) : options_(options) {
  options_.pool.router_id = RandomId();
  relay_context_.router_id = options_.pool.router_id;
  relay_context_.metrics = [this] { return adopted_metrics_.load(); };
  relay_context_.options = options.relay;
  relay_context_.count = &relay_count_;
  relay_context_.finished = [this](const std::string& id) { live_.Finish(id); };
  sessions_ = std::make_unique<SessionTable>(SessionTable::Options{
      .max_sessions = options.max_sessions,
      .close_place = [this](const SessionPlace& place) { CloseOnVerifier(place); },
      .count_changed =
          [this](size_t count) {
            RouterMetrics* const metrics = adopted_metrics_.load();
            if (metrics != nullptr) metrics->sessions.Set(static_cast<double>(count));
          }});
}

Router::~Router() {
  expiry_.reset();
  {
    const absl::MutexLock lock(&health_mutex_);
    health_ = nullptr;
  }
  server_.reset();
  relay_count_.AwaitNone();
  pool_.reset();
}

RouterParts Router::Parts() {
  return {.page = page_.get(),
          .pool = pool_.get(),
          .sessions = sessions_.get(),
          .live = &live_,
          .relays = &relay_context_,
          .default_timeout = options_.default_timeout};
}

void Router::CloseOnVerifier(const SessionPlace& place) const {
  if (!place.worker->IsAlive(place.instance_id)) return;
  v1::CloseSessionRequest request;
  request.set_session_id(place.session_id);
  // Best effort: the verifier closes an idle session, and those of a router that is gone, by
  // itself.
  CallUnary<v1::SessionService::Stub::async_interface, v1::CloseSessionRequest,
            v1::CloseSessionResponse>(place.worker->sessions().async(),
                                      &v1::SessionService::Stub::async_interface::CloseSession,
                                      std::move(request), kCloseTimeout,
                                      [](const absl::Status&, const v1::CloseSessionResponse&) {});
}

void Router::BeginDrain() {
  {
    const absl::MutexLock lock(&health_mutex_);
    draining_ = true;
  }
  SetServingState(*page_, "draining");
  live_.Drain([this] { server_->Drained(); });
}

void Router::ModelAdopted(const ServedModel& model) {
  // What was said without a model's name is over.
  SetServingState(*page_, "none");
  page_->SetModel(model.model.name());
  metrics_ = std::make_unique<RouterMetrics>(*page_);
  adopted_metrics_.store(metrics_.get());
  SetInfo(*page_, "tandem_model_info", "The served model.",
          {{"hash", model.model.hash()},
           {"layers", std::to_string(model.model.layers())},
           {"width", std::to_string(model.model.width())},
           {"format", model.model.weight_format()}});
}

void Router::UsableChanged(int usable) {
  const absl::MutexLock lock(&health_mutex_);
  RouterMetrics* const metrics = adopted_metrics_.load();
  if (metrics != nullptr) metrics->verifiers_up.Set(usable);
  ready_ = usable > 0;
  if (!draining_) SetServingState(*page_, ready_ ? "serving" : "loading");
  ShowReadiness();
}

void Router::ShowReadiness() {
  if (health_ == nullptr) return;
  health_->SetServing(ready_);
  if (!ready_ || announced_) return;
  announced_ = true;
  const absl::Status status = health_->WriteReadyFile(
      {.path = options_.ready_file, .process = "router", .metrics_address = page_->address()});
  if (!status.ok()) LOG(ERROR) << status.message();
}

}  // namespace tandem
