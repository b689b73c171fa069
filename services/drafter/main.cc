// The drafter process: attaches to a verifier's socket and drafts with the MTP sidecar.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/flags.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_config.h"
#include "common/drafter/mtp/mtp_file.h"
#include "common/drafter/mtp/mtp_path.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "common/metrics/metrics.h"
#include "common/model/model_path.h"
#include "common/model/open_backend.h"
#include "common/model/synthetic.h"
#include "common/model/weight_format.h"
#include "common/rpc/ready_file.h"
#include "common/rpc/stop_signals.h"
#include "services/drafter/attach_loop.h"

using tandem::FromEnvironment;

ABSL_FLAG(std::string, socket, "", "unix socket of the verifier's DraftService");
ABSL_FLAG(std::string, model, "",
          "model file or folder, for --mtp-path=auto; synthetic:SIZE for a random sidecar of that "
          "size");
ABSL_FLAG(std::string, mtp_path, FromEnvironment("RWKV_MTP_PATH", "auto"),
          "sidecar folder; auto: mtp/ of the model folder; default RWKV_MTP_PATH");
ABSL_FLAG(bool, mtp_force, FromEnvironment("RWKV_MTP_FORCE", "") == "1",
          "draft although the sidecar names another base model; default RWKV_MTP_FORCE");
ABSL_FLAG(
    std::string, backend, "auto",
    "where drafts are made, as the verifier: cpu, cuda, or auto, which takes a GPU if there is "
    "one");
ABSL_FLAG(std::string, draft_weights, "bf16",
          "format of the sidecar's matrices: bf16, fp8, int8 or int6");
ABSL_FLAG(int, threads, 0, "threads of the CPU backend; 0: one per core");
ABSL_FLAG(std::string, metrics_address, "127.0.0.1:0", "host:port of /metrics; empty: none");
ABSL_FLAG(std::string, ready_file, "",
          "JSON file written once the verifier has answered for the first time");

namespace tandem {
namespace {

constexpr int kLargestVocab = 1 << 24;

absl::StatusOr<std::string> SidecarFolder() {
  const std::string mtp_path = absl::GetFlag(FLAGS_mtp_path);
  std::string model_folder;
  if (const std::string model = absl::GetFlag(FLAGS_model); !model.empty()) {
    ASSIGN_OR_RETURN(const ModelPath path, ResolveModelPath(model));
    model_folder = path.folder;
  } else if (mtp_path == "auto") {
    return absl::InvalidArgumentError("--model or --mtp-path must say where the sidecar lies");
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> folder, ResolveMtpPath(mtp_path, model_folder));
  if (!folder.has_value()) {
    return absl::NotFoundError(absl::StrCat("no sidecar: --mtp-path=", mtp_path, ", and ",
                                            model_folder, "/mtp must exist for auto"));
  }
  return *folder;
}

// Opens the sidecar for the base model that it drafts for.
using SidecarOpener =
    std::function<absl::StatusOr<std::unique_ptr<MtpFile>>(const MtpBase& base, bool force)>;

absl::StatusOr<SidecarOpener> MakeOpener() {
  if (const auto size = SyntheticSize(absl::GetFlag(FLAGS_model))) {
    ASSIGN_OR_RETURN(const SyntheticModel model, SyntheticOfSize(*size));
    const SyntheticMtp mtp = {.base = model.config, .base_name = model.name};
    return [mtp](const MtpBase&, bool) { return MtpFile::Synthetic(mtp); };
  }
  ASSIGN_OR_RETURN(const std::string folder, SidecarFolder());
  return [folder](const MtpBase& base, bool force) { return MtpFile::Open(folder, base, force); };
}

DrafterFactory MtpFactory(const SidecarOpener& open, bool force, WeightFormat weights) {
  return [open, force,
          weights](const DrafterInputs& inputs) -> absl::StatusOr<std::unique_ptr<Drafter>> {
    ASSIGN_OR_RETURN(const std::unique_ptr<MtpFile> file, open({.name = inputs.model,
                                                                .layers = inputs.layers,
                                                                .width = inputs.sizes.width,
                                                                .vocab = inputs.sizes.vocab},
                                                               force));
    for (const std::string& warning : file->warnings()) LOG(WARNING) << warning;
    return Mtp::Create(inputs.backend, *file,
                       {.vocab = inputs.sizes.vocab,
                        .embedding = inputs.embedding,
                        .head = inputs.head,
                        .slots = inputs.sizes.slots,
                        .max_lanes = inputs.sizes.max_lanes,
                        .max_rows = inputs.sizes.max_rows,
                        .weights = weights});
  };
}

SidecarFacts FactsOf(const MtpFile& file) {
  const MtpConfig& config = file.config();
  return {.base_model = config.base_model,
          .layers = config.layers,
          .width = config.width,
          .taps = {config.fuse_layers[0], config.fuse_layers[1]},
          .depth = config.depth,
          .window = config.window,
          .max_drafts = config.max_drafts(),
          .hash = HashHex(file.content_hash()),
          .force = absl::GetFlag(FLAGS_mtp_force)};
}

// Reads the whole sidecar, so that a damaged one ends the start. The verifier's model is not known
// yet: it is opened as for the model that it names, and again for the one that is offered.
absl::StatusOr<SidecarFacts> ReadSidecar(const SidecarOpener& open) {
  MtpBase own = {.vocab = kLargestVocab};
  if (!SyntheticSize(absl::GetFlag(FLAGS_model))) {
    ASSIGN_OR_RETURN(const std::string folder, SidecarFolder());
    ASSIGN_OR_RETURN(const MtpConfig config, ReadMtpConfig(folder + "/mtp.json"));
    own = {.name = config.base_model,
           .layers = config.layers,
           .width = config.width,
           .vocab = kLargestVocab};
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<MtpFile> file, open(own, /*force=*/false));
  return FactsOf(*file);
}

absl::StatusOr<AttachLoop::Options> LoopOptions(const std::string& metrics_address) {
  AttachLoop::Options options;
  options.socket = absl::GetFlag(FLAGS_socket);
  if (options.socket.empty()) return absl::InvalidArgumentError("--socket is required");
  const int threads = absl::GetFlag(FLAGS_threads);
  RETURN_IF_ERROR(CheckFlag("threads", threads, 0, 1024));
  ASSIGN_OR_RETURN(
      const WeightFormat weights,
      ParseWeightFormat("draft-weights", absl::GetFlag(FLAGS_draft_weights), AllWeightFormats()));
  ASSIGN_OR_RETURN(const SidecarOpener open, MakeOpener());
  ASSIGN_OR_RETURN(options.sidecar, ReadSidecar(open));
  ASSIGN_OR_RETURN(const OpenedBackend probe, OpenBackend(absl::GetFlag(FLAGS_backend), threads));
  options.backend = probe.backend->name();
  options.device_uuid = probe.device_uuid;
  options.mps = probe.mps;
  options.make_backend = [threads, name = options.backend]() -> std::unique_ptr<Backend> {
    absl::StatusOr<OpenedBackend> opened = OpenBackend(name, threads);
    if (opened.ok()) return std::move(opened->backend);
    LOG(ERROR) << opened.status().message();
    return nullptr;
  };
  options.make_drafter = MtpFactory(open, options.sidecar.force, weights);
  options.on_first_answer = [metrics_address] {
    const absl::Status status = WriteReadyFile({.path = absl::GetFlag(FLAGS_ready_file),
                                                .process = "drafter",
                                                .metrics_address = metrics_address});
    if (!status.ok()) LOG(ERROR) << status.message();
  };
  return options;
}

absl::Status Run() {
  StopSignals signals;
  RETURN_IF_ERROR(PrepareReadyFile(absl::GetFlag(FLAGS_ready_file)));
  ASSIGN_OR_RETURN(const std::unique_ptr<MetricsPage> page,
                   MetricsPage::Create(absl::GetFlag(FLAGS_metrics_address)));
  ASSIGN_OR_RETURN(AttachLoop::Options options, LoopOptions(page->address()));
  page->SetModel(options.sidecar.base_model);
  DrafterMetrics metrics(*page);
  LOG(INFO) << "drafter for " << options.sidecar.base_model << ", backend " << options.backend
            << ", weights " << absl::GetFlag(FLAGS_draft_weights) << ", verifier at "
            << options.socket << ", metrics at " << page->address();
  AttachLoop loop(std::move(options), &metrics);
  std::atomic<bool> stop{false};
  std::thread worker([&loop, &stop] { loop.Run([&stop] { return stop.load(); }); });
  while (signals.Wait(absl::InfiniteDuration()) != StopSignals::Event::kSignal) continue;
  LOG(INFO) << "stopping";
  stop.store(true);
  worker.join();
  if (const std::string ready = absl::GetFlag(FLAGS_ready_file); !ready.empty()) {
    unlink(ready.c_str());
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  tandem::ParseServiceFlags(argc, argv, "drafter",
                            "Drafts tokens for a verifier with an MTP sidecar.");
  const absl::Status status = tandem::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "tandem-drafter: %s\n", std::string(status.message()).c_str());
  return absl::IsInvalidArgument(status) ? 2 : 1;
}
