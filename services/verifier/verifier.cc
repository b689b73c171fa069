#include "services/verifier/verifier.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_path.h"
#include "common/metrics/metrics.h"
#include "common/model/weights_source.h"
#include "common/rpc/server.h"
#include "services/verifier/draft_setup.h"
#include "services/verifier/generation_service.h"
#include "services/verifier/session_service.h"
#include "services/verifier/worker_service.h"

namespace tandem {
namespace {

constexpr size_t kMaxVocabularyBytes = size_t{64} << 20;
// Beyond the drain itself: for the last messages to leave.
constexpr absl::Duration kDrainMargin = absl::Seconds(2);

// Everything that is loaded before serving, in the order of construction.
struct Loaded {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightsSource> source;
  std::unique_ptr<ModelWeights> weights;
  std::unique_ptr<Rwkv7> model;
  std::unique_ptr<MtpFile> sidecar;  // null: no drafting
  VocabularyFile vocabulary;
};

absl::StatusOr<std::unique_ptr<MtpFile>> OpenSidecar(const VerifierOptions& options,
                                                     const WeightsSource& source) {
  ASSIGN_OR_RETURN(const std::optional<std::string> folder,
                   ResolveMtpPath(options.mtp_path, source.path().folder));
  if (!folder) return std::unique_ptr<MtpFile>();
  const ModelConfig& config = source.config();
  ASSIGN_OR_RETURN(auto sidecar, MtpFile::Open(*folder,
                                               {.name = source.name(),
                                                .layers = config.layers,
                                                .width = config.width,
                                                .vocab = config.vocab},
                                               options.mtp_force));
  for (const std::string& warning : sidecar->warnings()) LOG(WARNING) << warning;
  LOG(INFO) << "sidecar " << *folder;
  return sidecar;
}

absl::StatusOr<Loaded> Load(const VerifierOptions& options) {
  Loaded loaded;
  if (options.backend != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("--backend=", options.backend, ": this build has the backend cpu only"));
  }
  loaded.backend = MakeCpuBackend(options.threads);
  ASSIGN_OR_RETURN(loaded.source, WeightsSource::Open(options.model));
  ASSIGN_OR_RETURN(loaded.weights, ModelWeights::Load(loaded.backend.get(), *loaded.source));
  loaded.model = std::make_unique<Rwkv7>(loaded.weights.get());
  ASSIGN_OR_RETURN(loaded.sidecar, OpenSidecar(options, *loaded.source));
  const std::string& path = loaded.source->path().vocab;
  if (!path.empty()) {
    ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kMaxVocabularyBytes));
    loaded.vocabulary = MakeVocabularyFile(std::move(bytes));
    if (loaded.vocabulary.usable > loaded.source->config().vocab) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": highest id ", loaded.vocabulary.usable - 1, ", but the model has ",
                       loaded.source->config().vocab, " ids"));
    }
  } else {
    LOG(WARNING) << "no vocabulary file beside the model: routers can serve token ids only";
  }
  return loaded;
}

std::string NewInstanceId() {
  std::random_device device;
  return absl::StrCat(absl::Hex(device(), absl::kZeroPad8), absl::Hex(device(), absl::kZeroPad8));
}

ServedModel Describe(const VerifierOptions& options, const Loaded& loaded) {
  return {.instance_id = NewInstanceId(),
          .version = TANDEM_VERSION,
          .name = loaded.source->name(),
          .hash = HashHex(loaded.source->content_hash()),
          .config = loaded.source->config(),
          .parameters = loaded.source->parameter_count(),
          .weight_format = "bf16",
          .backend = loaded.backend->name(),
          .schedule = options.engine.schedule.text(),
          .max_prompt_tokens = static_cast<uint32_t>(options.engine.max_prompt_tokens),
          .max_tokens = options.max_tokens};
}

void ShowInfo(MetricsPage& page, const ServedModel& model, const MtpFile* sidecar) {
  SetInfo(page, "tandem_build_info", "The build that runs.", {{"version", model.version}});
  SetInfo(page, "tandem_model_info", "The base model.",
          {{"format", model.weight_format},
           {"layers", std::to_string(model.config.layers)},
           {"width", std::to_string(model.config.width)},
           {"tp", "1"}});
  if (sidecar == nullptr) return;
  const auto& taps = sidecar->config().fuse_layers;
  SetInfo(page, "tandem_sidecar_info", "The sidecar in use.",
          {{"kind", "mtp"},
           {"depth", std::to_string(sidecar->config().depth)},
           {"taps", absl::StrCat(taps[0], ",", taps[1])}});
}

// The parts of a verifier that serves, in the order of construction.
class Serving final {
 public:
  Serving(const VerifierOptions& options, const Loaded& loaded, DraftSetup* drafts, Engine* engine,
          MetricsPage* page, StopSignals* signals)
      : options_(options),
        model_(Describe(options, loaded)),
        drafts_(drafts),
        engine_(engine),
        page_(page),
        signals_(signals),
        generation_(
            {.max_request_time = options.max_request_time}, engine, &model_,
            [drafts] { return drafts->status(); }, page),
        session_(engine, model_.name, page),
        worker_(
            {.drain_timeout = options.engine.drain_timeout}, engine, &model_, &loaded.vocabulary,
            [drafts] { return drafts->status(); },
            [this](absl::Duration timeout) { DrainThenStop(timeout); },
            [this](const EngineLoad& load) { Observe(load); }, page) {
    ShowInfo(*page, model_, loaded.sidecar.get());
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(auto server,
                     ServerRunner::Start({.address = options_.address,
                                          .services = {&generation_, &session_, &worker_},
                                          .health_names = {"tandem.v1.GenerationService",
                                                           "tandem.v1.SessionService",
                                                           "tandem.v1.WorkerService"}}));
    engine_->Start();
    server->SetServing(true);
    SetServingState(*page_, "serving");
    RETURN_IF_ERROR(server->WriteReadyFile(
        {.path = options_.ready_file, .process = "verifier", .metrics_address = page_->address()}));
    LOG(INFO) << "serving " << model_.name << " on " << server->address();
    server_ = server.get();
    const absl::Duration timeout = options_.engine.drain_timeout;
    server->Run(*signals_, timeout + kDrainMargin, [this, timeout] { BeginDrain(timeout); });
    server_ = nullptr;
    return absl::OkStatus();
  }

 private:
  // A Drain call: as a stop signal, once nothing is left.
  void DrainThenStop(absl::Duration timeout) {
    SetServingState(*page_, "draining");
    if (ServerRunner* const server = server_) server->SetServing(false);
    engine_->Drain(timeout, [this] { signals_->Raise(); });
  }

  void BeginDrain(absl::Duration timeout) {
    SetServingState(*page_, "draining");
    engine_->Drain(timeout, [this] {
      drafts_->Drain();
      worker_.EndWatches();
      if (ServerRunner* const server = server_) server->Drained();
    });
  }

  void Observe(const EngineLoad& load) {
    const bool live = load.stalled < options_.stall_limit;
    if (live == live_) return;
    live_ = live;
    if (!live)
      LOG(ERROR) << "no step for " << absl::FormatDuration(load.stalled) << " with work waiting";
    if (ServerRunner* const server = server_) server->SetLive(live);
  }

  const VerifierOptions& options_;
  const ServedModel model_;
  DraftSetup* const drafts_;
  Engine* const engine_;
  MetricsPage* const page_;
  StopSignals* const signals_;
  std::atomic<ServerRunner*> server_{nullptr};
  bool live_ = true;  // of the watching thread
  GenerationService generation_;
  SessionService session_;
  WorkerService worker_;
};

}  // namespace

absl::Status RunVerifier(VerifierOptions options, StopSignals& signals) {
  ASSIGN_OR_RETURN(const std::unique_ptr<MetricsPage> page,
                   MetricsPage::Create(options.metrics_address));
  ASSIGN_OR_RETURN(const Loaded loaded, Load(options));
  page->SetModel(loaded.source->name());
  SetServingState(*page, "loading");
  VerifierMetrics metrics(*page);
  options.engine.usable_vocab = loaded.vocabulary.usable;
  ASSIGN_OR_RETURN(const std::unique_ptr<DraftSetup> drafts,
                   DraftSetup::Create({.handoff = options.handoff,
                                       .socket = options.draft_socket,
                                       .sidecar = loaded.sidecar.get(),
                                       .slots = options.engine.max_sequences,
                                       .max_lanes = options.engine.max_sequences,
                                       .max_rows = options.engine.max_rows()},
                                      loaded.weights.get(), &metrics));
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   Engine::Create(loaded.backend.get(), loaded.model.get(), drafts->port(),
                                  &metrics, options.engine));
  return Serving(options, loaded, drafts.get(), engine.get(), page.get(), &signals).Run();
}

}  // namespace tandem
