#include "services/verifier/draft_setup.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/drafter/mtp/mtp.h"
#include "common/ipc/descriptors.h"
#include "common/ipc/handle.h"
#include "common/model/model_path.h"
#include "services/verifier/device_rounds.h"
#include "services/verifier/draft_attachment.h"
#include "services/verifier/draft_blocks.h"
#include "services/verifier/draft_probe.h"
#include "services/verifier/draft_service.h"
#include "services/verifier/inprocess_draft_port.h"
#include "services/verifier/ipc_draft_port.h"

namespace tandem {

// In the order of construction: each part uses those above it, and the service's threads end first.
struct DraftSetup::Impl {
  std::unique_ptr<Backend> probe_backend;
  std::unique_ptr<DeviceProbe> probe;
  std::unique_ptr<DraftBlocks> blocks;
  std::unique_ptr<ipc::DescriptorServer> descriptors;
  std::unique_ptr<DraftAttachment> attachment;
  std::unique_ptr<DraftPort> port;
  std::unique_ptr<DraftService> service;
  HandoffStatus fixed;  // without attachment
  std::string reason;   // why this mode
};

namespace {

using Options = DraftSetup::Options;

constexpr double kGpuFloorSeconds = 0.002;
constexpr double kCpuFloorSeconds = 0.05;
// A drafter on a GPU records a graph for every new shape of a round, most of them at first.
constexpr int kGpuColdRounds = 64;
// For a drafter that was sent away to close its mappings, before the memory is freed.
constexpr absl::Duration kReturnTime = absl::Seconds(2);

bool OnCpu(const ModelWeights& weights) {
  return absl::string_view(weights.backend()->name()) == "cpu";
}

std::string SidecarName(const MtpFile& sidecar) {
  return absl::StrCat(ModelName(sidecar.config().base_model), " mtp");
}

absl::StatusOr<DraftAttachment::Options> AttachmentOptions(const Options& options,
                                                           const ModelWeights& weights) {
  const MtpConfig& config = options.sidecar->config();
  DraftAttachment::Options attachment;
  ASSIGN_OR_RETURN(attachment.facts.identity,
                   ipc::OwnIdentity(weights.backend()->name(), options.device_uuid));
  attachment.facts.identity.mps = options.mps;
  attachment.facts.model = weights.name();
  attachment.facts.layers = weights.config().layers;
  attachment.facts.width = weights.config().width;
  attachment.facts.taps[0] = config.fuse_layers[0];
  attachment.facts.taps[1] = config.fuse_layers[1];
  attachment.facts.sidecar = {.kind = "mtp",
                              .depth = config.depth,
                              .window = config.window,
                              .max_drafts = config.max_drafts(),
                              .hash = HashHex(options.sidecar->content_hash())};
  if (OnCpu(weights)) {
    attachment.weight_descriptors = {weights.embedding_handle().fd, weights.head_handle().fd};
  }
  attachment.sidecar = SidecarName(*options.sidecar);
  return attachment;
}

DraftService::Options ServiceOptions(const Options& options, const ModelWeights& weights,
                                     const ipc::Layout& layout) {
  DraftService::Options service;
  service.socket = options.socket;
  service.descriptor_socket = options.socket + ".fds";
  service.model = weights.name();
  service.model_hash = HashHex(weights.hash());
  service.layers = weights.config().layers;
  service.max_drafts = options.sidecar->config().max_drafts();
  service.layout = layout;
  service.embedding_bytes = weights.embedding_handle().bytes;
  service.head_bytes = weights.head_handle().bytes;
  service.head_format = static_cast<uint32_t>(weights.head().format);
  service.embedding_handle = ipc::HandleBytes(weights.embedding_handle());
  service.head_handle = ipc::HandleBytes(weights.head_handle());
  service.lease_seconds = options.lease_seconds;
  return service;
}

IpcDraftPort::Options PortOptions(const Options& options, const ModelWeights& weights) {
  const MtpConfig& config = options.sidecar->config();
  IpcDraftPort::Options port;
  port.taps[0] = config.fuse_layers[0];
  port.taps[1] = config.fuse_layers[1];
  port.max_drafts = config.max_drafts();
  port.vocab = weights.config().vocab;
  port.deadline = options.deadline;
  if (port.deadline.floor_seconds == 0) {
    port.deadline.floor_seconds = OnCpu(weights) ? kCpuFloorSeconds : kGpuFloorSeconds;
    if (!OnCpu(weights)) port.deadline.cold_rounds = kGpuColdRounds;
  }
  return port;
}

// Whether device mode is possible or, on the CPU, wanted.
bool MayUseDevice(const Options& options, const ModelWeights& weights) {
  if (options.handoff == Handoff::kDevice) return true;
  return options.handoff == Handoff::kAuto && options.mps && weights.backend()->has_words();
}

absl::Status SetUpProbe(const Options& options, const ModelWeights& weights,
                        DraftSetup::Impl& impl) {
  if (!weights.backend()->has_words()) {
    return absl::FailedPreconditionError(
        "--handoff=device: the driver has no stream memory operations; use --handoff=host");
  }
  ASSIGN_OR_RETURN(impl.probe_backend, options.make_backend());
  impl.probe = DeviceProbe::Create(impl.probe_backend.get());
  if (impl.probe == nullptr) return absl::ResourceExhaustedError("no memory for the probe");
  return absl::OkStatus();
}

// A drafter process, in host or device mode.
absl::Status SetUpProcess(const Options& options, const ModelWeights& weights,
                          VerifierMetrics* metrics, DraftSetup::Impl& impl) {
  if (options.socket.empty()) {
    return absl::FailedPreconditionError(
        "the hand-off needs a unix socket for the drafter (--draft-socket)");
  }
  const bool device = MayUseDevice(options, weights);
  std::unique_ptr<DeviceRounds> rounds;
  if (device) {
    RETURN_IF_ERROR(SetUpProbe(options, weights, impl));
    ASSIGN_OR_RETURN(
        rounds, DeviceRounds::Create(weights.backend(), options.max_lanes, weights.config().vocab));
  }
  ASSIGN_OR_RETURN(impl.blocks, DraftBlocks::Create(weights.backend(),
                                                    {.slots = options.slots,
                                                     .max_lanes = options.max_lanes,
                                                     .max_rows = options.max_rows,
                                                     .width = weights.config().width,
                                                     .vocab = weights.config().vocab},
                                                    device));
  ASSIGN_OR_RETURN(impl.descriptors, ipc::DescriptorServer::Start(options.socket + ".fds"));
  ASSIGN_OR_RETURN(DraftAttachment::Options attachment, AttachmentOptions(options, weights));
  attachment.device_probe = impl.probe.get();
  attachment.force_device = options.handoff == Handoff::kDevice;
  attachment.reason = impl.reason;
  impl.fixed.mode = attachment.force_device ? "device" : "host";
  impl.attachment = std::make_unique<DraftAttachment>(std::move(attachment), impl.blocks.get(),
                                                      impl.descriptors.get(), metrics);
  impl.port = std::make_unique<IpcDraftPort>(PortOptions(options, weights), impl.attachment.get(),
                                             metrics, std::move(rounds));
  ASSIGN_OR_RETURN(impl.service,
                   DraftService::Start(ServiceOptions(options, weights, impl.blocks->layout()),
                                       impl.attachment.get()));
  return absl::OkStatus();
}

absl::Status SetUpInProcess(const Options& options, const ModelWeights& weights,
                            DraftSetup::Impl& impl) {
  const MtpConfig& config = options.sidecar->config();
  ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter,
                   Mtp::Create(weights.backend(), *options.sidecar,
                               {.vocab = weights.config().vocab,
                                .embedding = weights.embedding(),
                                .head = weights.head(),
                                .slots = options.slots,
                                .max_lanes = options.max_lanes,
                                .max_rows = options.max_rows,
                                .weights = options.draft_weights}));
  impl.port = InProcessDraftPort::Create(weights.backend(),
                                         {.taps = {config.fuse_layers[0], config.fuse_layers[1]},
                                          .width = weights.config().width,
                                          .max_rows = options.max_rows,
                                          .vocab = weights.config().vocab},
                                         std::move(drafter));
  if (impl.port == nullptr) {
    return absl::ResourceExhaustedError(
        "no memory for the feature rows of the drafter; lower --prefill-budget or --max-sequences");
  }
  impl.fixed.mode = "inprocess";
  impl.fixed.attached = true;
  impl.fixed.sidecar = SidecarName(*options.sidecar);
  impl.fixed.depth = config.depth;
  impl.fixed.max_drafts = impl.port->max_drafts();
  return absl::OkStatus();
}

void SetUpNone(DraftSetup::Impl& impl) {
  impl.port = std::make_unique<NoDraftPort>();
  impl.fixed = HandoffStatus{};
  impl.fixed.mode = "none";
}

std::string AutoReason(const Options& options, const ModelWeights& weights) {
  if (OnCpu(weights)) return "the CPU backend takes device mode only when forced";
  if (!weights.backend()->has_words()) return "the driver has no stream memory operations";
  return options.mps ? "no drafter under MPS has attached" : "the verifier does not run under MPS";
}

// Auto: a drafter process where one can attach, which then decides between device and host mode;
// else in-process.
absl::Status SetUpAuto(const Options& options, const ModelWeights& weights,
                       VerifierMetrics* metrics, DraftSetup::Impl& impl) {
  impl.reason = AutoReason(options, weights);
  const absl::Status process = SetUpProcess(options, weights, metrics, impl);
  if (process.ok()) return absl::OkStatus();
  impl = DraftSetup::Impl{};
  LOG(WARNING) << "no drafter process can attach: " << process.message()
               << "; the drafter runs in the verifier's process";
  impl.reason = std::string(process.message());
  return SetUpInProcess(options, weights, impl);
}

}  // namespace

absl::StatusOr<Handoff> ParseHandoff(const std::string& text) {
  if (text == "auto") return Handoff::kAuto;
  if (text == "device") return Handoff::kDevice;
  if (text == "host") return Handoff::kHost;
  if (text == "inprocess") return Handoff::kInProcess;
  return absl::InvalidArgumentError(
      absl::StrCat("hand-off `", text, "`: must be auto, device, host or inprocess"));
}

absl::StatusOr<std::unique_ptr<DraftSetup>> DraftSetup::Create(const Options& options,
                                                               const ModelWeights* weights,
                                                               VerifierMetrics* metrics) {
  auto impl = std::make_unique<Impl>();
  impl->reason = "forced by --handoff";
  if (options.sidecar == nullptr) {
    if (options.handoff != Handoff::kAuto) {
      return absl::FailedPreconditionError(
          "--handoff was forced, but there is no sidecar: name its folder with --mtp-path");
    }
    SetUpNone(*impl);
    impl->reason = "no sidecar";
  } else if (options.handoff == Handoff::kHost || options.handoff == Handoff::kDevice) {
    RETURN_IF_ERROR(SetUpProcess(options, *weights, metrics, *impl));
  } else if (options.handoff == Handoff::kInProcess) {
    RETURN_IF_ERROR(SetUpInProcess(options, *weights, *impl));
  } else {
    RETURN_IF_ERROR(SetUpAuto(options, *weights, metrics, *impl));
  }
  impl->fixed.reason = impl->reason;
  metrics->SetHandoff(impl->fixed.mode, impl->reason);
  LOG(INFO) << "hand-off to the drafter: " << impl->fixed.mode << " (" << impl->reason << ")";
  return std::unique_ptr<DraftSetup>(new DraftSetup(std::move(impl)));
}

DraftSetup::DraftSetup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DraftSetup::~DraftSetup() {
  if (impl_->service == nullptr) return;
  impl_->service->Drain();
  if (!impl_->attachment->AwaitReturned(kReturnTime)) {
    LOG(WARNING) << "a drafter still maps the shared memory; the verifier ends nevertheless";
  }
}

DraftPort* DraftSetup::port() const { return impl_->port.get(); }

HandoffStatus DraftSetup::status() const {
  if (impl_->attachment == nullptr) return impl_->fixed;
  return impl_->attachment->Status();
}

void DraftSetup::Drain() {
  if (impl_->service != nullptr) impl_->service->Drain();
}

}  // namespace tandem
