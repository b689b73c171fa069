#include "services/verifier/verifier.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp_path.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "common/metrics/metrics.h"
#include "common/model/open_backend.h"
#include "common/model/synthetic.h"
#include "common/model/synthetic_vocabulary.h"
#include "common/model/weights_source.h"
#include "common/rpc/server.h"
#include "common/rpc/validate.h"
#include "services/verifier/draft_setup.h"
#include "services/verifier/generation_service.h"
#include "services/verifier/memory_plan.h"
#include "services/verifier/session_service.h"
#include "services/verifier/worker_service.h"

namespace tandem {
namespace {

// Beyond the drain itself: for the last messages to leave.
constexpr absl::Duration kDrainMargin = absl::Seconds(2);

// Everything that is loaded before serving, in the order of construction.
struct Loaded {
  OpenedBackend device;
  std::unique_ptr<ModelWeights> weights;
  int64_t parameters = 0;
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

// "matrices of fp8, low-rank of bf16, ..."
std::string StoredText(const WeightsSource& source) {
  std::string text;
  for (const WeightsComponent& part : source.components())
    absl::StrAppend(&text, text.empty() ? "" : ", ", part.name, " of ", part.dtype);
  return text;
}

// Says what will be needed before anything is allocated.
absl::Status CheckMemory(const VerifierOptions& options, const Loaded& loaded,
                         const ModelWeights::Bytes& weights, const ModelConfig& config) {
  Backend* const backend = loaded.device.backend.get();
  std::vector<MemoryShare> plan = PlanMemory(*backend, weights, config, options.engine);
  const MemoryShare linear =
      LinearShare(*backend, config, options.engine, options.weights.rounded_inputs);
  if (linear.bytes > 0) plan.push_back(linear);
  const std::optional<size_t> free = backend->FreeBytes();
  if (loaded.sidecar != nullptr) {
    const MemoryShare sidecar = SidecarShare(*backend, *loaded.sidecar, options.draft_weights,
                                             options.engine.max_sequences);
    if (options.handoff == Handoff::kInProcess || options.draft_socket.empty()) {
      plan.push_back(sidecar);
    } else {
      ASSIGN_OR_RETURN(const MemoryShare blocks, DraftBlocksShare(config, options.engine));
      plan.push_back(blocks);
      if (free && TotalOf(plan) + sidecar.bytes > *free) {
        LOG(WARNING) << "a drafter on the same device will lack memory: it needs about "
                     << sidecar.bytes << " bytes more";
      }
    }
  }
  LOG(INFO) << "memory " << PlanText(plan);
  return CheckPlan(plan, backend->name(), free);
}

absl::Status LoadVocabulary(const std::string& path, int vocab, VocabularyFile& vocabulary) {
  if (path.empty()) {
    LOG(WARNING) << "no vocabulary file beside the model: routers can serve token ids only";
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kMaxVocabularyBytes));
  vocabulary = MakeVocabularyFile(std::move(bytes));
  if (vocabulary.usable <= vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": highest id ", vocabulary.usable - 1,
                                                 ", but the model has ", vocab, " ids"));
}

absl::Status LoadFiles(const VerifierOptions& options, Loaded& loaded) {
  Backend* const backend = loaded.device.backend.get();
  ASSIGN_OR_RETURN(const auto source, WeightsSource::Open(options.model));
  LOG(INFO) << source->path().checkpoint << ": " << StoredText(*source);
  ASSIGN_OR_RETURN(loaded.sidecar, OpenSidecar(options, *source));
  RETURN_IF_ERROR(CheckMemory(
      options, loaded, ModelWeights::Measure(backend, *source, options.weights), source->config()));
  ASSIGN_OR_RETURN(loaded.weights, ModelWeights::Load(backend, *source, options.weights));
  loaded.parameters = source->parameter_count();
  return LoadVocabulary(source->path().vocab, source->config().vocab, loaded.vocabulary);
}

absl::Status MakeAll(const VerifierOptions& options, const std::string& size, Loaded& loaded) {
  Backend* const backend = loaded.device.backend.get();
  ASSIGN_OR_RETURN(SyntheticModel model, SyntheticOfSize(size));
  model.format = options.weights.matrices.value_or(WeightFormat::kBf16);
  model.head_format = options.weights.head.value_or(WeightFormat::kBf16);
  model.rounded_inputs = options.weights.rounded_inputs;
  if (model.rounded_inputs && model.format != WeightFormat::kFp8) {
    return absl::InvalidArgumentError(
        "--activations=fp8 needs matrices in fp8: --weights=fp8 for a synthetic model");
  }
  model.zero_share = options.synthetic_zeros;
  if (options.mtp_path != "off") {
    loaded.sidecar = MtpFile::Synthetic({.base = model.config, .base_name = model.name});
  }
  RETURN_IF_ERROR(CheckMemory(options, loaded, MeasureSynthetic(backend, model), model.config));
  ASSIGN_OR_RETURN(loaded.weights, MakeSynthetic(backend, model));
  loaded.parameters = ParameterCount(model.config);
  loaded.vocabulary = MakeVocabularyFile(SyntheticVocabulary(model.config.vocab));
  return absl::OkStatus();
}

absl::StatusOr<Loaded> Load(const VerifierOptions& options) {
  Loaded loaded;
  ASSIGN_OR_RETURN(loaded.device,
                   OpenBackend(options.backend, options.threads, options.batch_invariant));
  LOG(INFO) << "backend " << loaded.device.backend->name()
            << (loaded.device.device_name.empty() ? "" : " on " + loaded.device.device_name);
  if (const auto size = SyntheticSize(options.model)) {
    RETURN_IF_ERROR(MakeAll(options, *size, loaded));
  } else {
    RETURN_IF_ERROR(LoadFiles(options, loaded));
  }
  loaded.model = std::make_unique<Rwkv7>(loaded.weights.get());
  return loaded;
}

// Says so where replies are not the model's.
std::string ServedName(const VerifierOptions& options, const ModelWeights& weights) {
  if (options.engine.simulated_accepted < 0) return weights.name();
  return absl::StrCat(weights.name(), "-simulated-", options.engine.simulated_accepted);
}

ServedModel Describe(const VerifierOptions& options, const Loaded& loaded) {
  return {.instance_id = RandomId(),
          .version = TANDEM_VERSION,
          .name = ServedName(options, *loaded.weights),
          .hash = HashHex(loaded.weights->hash()),
          .config = loaded.weights->config(),
          .parameters = loaded.parameters,
          .weight_format = loaded.weights->FormatText(),
          .backend = loaded.device.backend->name(),
          .schedule = options.engine.schedule.text(),
          .max_prompt_tokens = static_cast<uint32_t>(options.engine.max_prompt_tokens),
          .max_tokens = static_cast<uint32_t>(options.max_tokens)};
}

// Of what is to be loaded.
absl::StatusOr<std::string> NameOf(const std::string& model) {
  if (const auto size = SyntheticSize(model)) {
    ASSIGN_OR_RETURN(const SyntheticModel synthetic, SyntheticOfSize(*size));
    return synthetic.name;
  }
  ASSIGN_OR_RETURN(const ModelPath path, ResolveModelPath(model));
  return path.name;
}

std::vector<std::string> HealthNames() {
  return {v1::GenerationService::service_full_name(), v1::SessionService::service_full_name(),
          v1::WorkerService::service_full_name()};
}

void ShowInfo(MetricsPage& page, const ServedModel& model, const MtpFile* sidecar) {
  SetInfo(page, "tandem_build_info", "The build that runs.", {{"version", model.version}});
  SetInfo(page, "tandem_model_info", "The base model.",
          {{"format", model.weight_format},
           {"backend", model.backend},
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

// One verifier process, its parts in the order of construction: the services answer UNAVAILABLE
// until the model is loaded. The server ends first: no call may meet an engine that is gone.
class Verifier final {
 public:
  Verifier(const VerifierOptions& options, std::unique_ptr<MetricsPage> page, StopSignals* signals)
      : options_(options),
        page_(std::move(page)),
        signals_(signals),
        generation_({.max_request_time = options.max_request_time}, &gate_, page_.get()),
        session_(&gate_, page_.get()),
        worker_(
            {.drain_timeout = options.drain_timeout}, &gate_,
            [this](absl::Duration timeout) { DrainThenStop(timeout); },
            [this](const EngineLoad& load) { Observe(load); }, page_.get()) {}
  ~Verifier() {
    worker_.StopWatching();
    if (server_ != nullptr) server_->Shutdown();
  }

  absl::Status Run() {
    ASSIGN_OR_RETURN(const std::string name, NameOf(options_.model));
    page_->SetModel(name);
    SetServingState(*page_, "loading");
    ASSIGN_OR_RETURN(server_, ServerRunner::Start({.address = options_.address,
                                                   .services = {&generation_, &session_, &worker_},
                                                   .health_names = HealthNames(),
                                                   .page = page_.get()}));
    // Not before it has its ports: another verifier on them keeps its file.
    RETURN_IF_ERROR(PrepareReadyFile(options_.ready_file));
    RETURN_IF_ERROR(LoadAll());
    engine_->Start();
    gate_.Open(&parts_);
    server_->SetServing(true);
    SetServingState(*page_, "serving");
    RETURN_IF_ERROR(server_->WriteReadyFile(
        {.path = options_.ready_file, .process = "verifier", .metrics_address = page_->address()}));
    LOG(INFO) << "serving " << model_.name << ", weights " << model_.weight_format << ", on "
              << server_->address();
    server_->Run(*signals_, options_.drain_timeout + kDrainMargin, [this] { BeginDrain(); });
    return absl::OkStatus();
  }

 private:
  absl::Status LoadAll() {
    ASSIGN_OR_RETURN(loaded_, Load(options_));
    metrics_.emplace(*page_);
    EngineOptions engine = options_.engine;
    engine.usable_vocab = loaded_.vocabulary.usable;
    ASSIGN_OR_RETURN(drafts_, DraftSetup::Create({.handoff = options_.handoff,
                                                  .socket = options_.draft_socket,
                                                  .sidecar = loaded_.sidecar.get(),
                                                  .device_uuid = loaded_.device.device_uuid,
                                                  .mps = loaded_.device.mps,
                                                  .make_backend = [this] { return Another(); },
                                                  .draft_weights = options_.draft_weights,
                                                  .slots = engine.max_sequences,
                                                  .max_lanes = engine.max_sequences,
                                                  .max_rows = engine.max_rows()},
                                                 loaded_.weights.get(), &*metrics_));
    ASSIGN_OR_RETURN(engine_, Engine::Create(loaded_.device.backend.get(), loaded_.model.get(),
                                             drafts_->port(), &*metrics_, std::move(engine)));
    model_ = Describe(options_, loaded_);
    ShowInfo(*page_, model_, loaded_.sidecar.get());
    parts_ = {.engine = engine_.get(),
              .model = &model_,
              .vocabulary = &loaded_.vocabulary,
              .handoff = [this] { return drafts_->status(); }};
    return absl::OkStatus();
  }

  // The same backend with a queue of its own; one thread is enough for what it does.
  absl::StatusOr<std::unique_ptr<Backend>> Another() const {
    ASSIGN_OR_RETURN(OpenedBackend opened, OpenBackend(loaded_.device.backend->name(), 1));
    return std::move(opened.backend);
  }

  // A Drain call: as a stop signal, once nothing is left.
  void DrainThenStop(absl::Duration timeout) {
    SetServingState(*page_, "draining");
    server_->SetServing(false);
    engine_->Drain(timeout, [this] { signals_->Raise(); });
  }

  void BeginDrain() {
    SetServingState(*page_, "draining");
    engine_->Drain(options_.drain_timeout, [this] {
      drafts_->Drain();
      worker_.EndWatches();
      server_->Drained();
    });
  }

  void Observe(const EngineLoad& load) {
    metrics_->drafter_attached.Set(drafts_->status().attached ? 1 : 0);
    const bool live = load.stalled < options_.stall_limit;
    if (live == live_) return;
    live_ = live;
    if (!live) {
      LOG(ERROR) << "no step for " << absl::FormatDuration(load.stalled) << " with work waiting";
    }
    server_->SetLive(live);
  }

  const VerifierOptions& options_;
  const std::unique_ptr<MetricsPage> page_;
  StopSignals* const signals_;
  ServingGate gate_;
  GenerationService generation_;
  SessionService session_;
  bool live_ = true;  // of the watching thread
  WorkerService worker_;
  std::unique_ptr<ServerRunner> server_;
  Loaded loaded_;
  std::optional<VerifierMetrics> metrics_;
  std::unique_ptr<DraftSetup> drafts_;
  std::unique_ptr<Engine> engine_;
  ServedModel model_;
  ServingParts parts_;
};

}  // namespace

absl::Status RunVerifier(const VerifierOptions& options, StopSignals& signals) {
  ASSIGN_OR_RETURN(std::unique_ptr<MetricsPage> page, MetricsPage::Create(options.metrics_address));
  return Verifier(options, std::move(page), &signals).Run();
}

}  // namespace tandem
