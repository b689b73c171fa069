#include "services/verifier/draft_handshake.h"

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/model/model_path.h"

namespace tandem {
namespace {

std::optional<DraftRefusal> CheckHost(const ipc::Identity& verifier, const ipc::Identity& drafter) {
  if (drafter.protocol_major != verifier.protocol_major) {
    return DraftRefusal{
        "PROTOCOL_TOO_OLD",
        absl::StrCat("protocol ", drafter.protocol_major, " here, ", verifier.protocol_major,
                     " at the verifier; run both from one build")};
  }
  if (drafter.boot_id != verifier.boot_id) {
    return DraftRefusal{"HOST_DIFFERS",
                        absl::StrCat("boot id ", drafter.boot_id, " here, ", verifier.boot_id,
                                     " at the verifier; run both on one machine")};
  }
  if (drafter.pid_namespace != verifier.pid_namespace) {
    return DraftRefusal{
        "PID_NAMESPACE_DIFFERS",
        absl::StrCat("PID namespace ", drafter.pid_namespace, " here, ", verifier.pid_namespace,
                     " at the verifier; use one container or shareProcessNamespace")};
  }
  if (drafter.pid == verifier.pid) {
    return DraftRefusal{"SAME_PID", absl::StrCat("both processes have PID ", drafter.pid,
                                                 "; the drafter must be a process of its own")};
  }
  if (drafter.uid != verifier.uid) {
    return DraftRefusal{"UID_DIFFERS",
                        absl::StrCat("user id ", drafter.uid, " here, ", verifier.uid,
                                     " at the verifier; run both as one user")};
  }
  if (drafter.backend != verifier.backend) {
    return DraftRefusal{"BACKEND_DIFFERS",
                        absl::StrCat("backend ", drafter.backend, " here, ", verifier.backend,
                                     " at the verifier; choose the same --backend")};
  }
  if (drafter.device_uuid != verifier.device_uuid) {
    return DraftRefusal{
        "GPU_DIFFERS", absl::StrCat("device ", drafter.device_uuid, " here, ", verifier.device_uuid,
                                    " at the verifier; give both the same GPU")};
  }
  return std::nullopt;
}

std::optional<DraftRefusal> CheckModel(const VerifierFacts& verifier, const DrafterFacts& drafter) {
  const std::string found =
      absl::StrCat(drafter.base_model, " with ", drafter.layers, " layers of width ", drafter.width,
                   ", tapped after layers ", drafter.taps[0], " and ", drafter.taps[1]);
  const std::string wanted =
      absl::StrCat(verifier.model, " with ", verifier.layers, " layers of width ", verifier.width,
                   ", tapped after layers ", verifier.taps[0], " and ", verifier.taps[1]);
  const std::string message = absl::StrCat("the sidecar is for ", found, "; the verifier serves ",
                                           wanted, "; give both processes the same --mtp-path");
  if (drafter.width != verifier.width || drafter.taps[0] != verifier.taps[0] ||
      drafter.taps[1] != verifier.taps[1] || drafter.sidecar.depth < 1 ||
      drafter.sidecar.max_drafts < 1) {
    return DraftRefusal{"MODEL_MISMATCH", message};
  }
  if (ModelName(drafter.base_model) == ModelName(verifier.model) &&
      drafter.layers == verifier.layers) {
    return std::nullopt;
  }
  if (!drafter.force) {
    return DraftRefusal{"MODEL_MISMATCH",
                        absl::StrCat(message, ", or --mtp-force to try nevertheless")};
  }
  LOG(WARNING) << "forced: " << message;
  return std::nullopt;
}

std::string Describe(const SidecarTraits& sidecar) {
  return absl::StrCat(sidecar.kind, " of depth ", sidecar.depth, ", window ", sidecar.window,
                      ", at most ", sidecar.max_drafts, " drafts, hash ", sidecar.hash);
}

std::optional<DraftRefusal> CheckSidecar(const VerifierFacts& verifier,
                                         const DrafterFacts& drafter) {
  const SidecarTraits& wanted = verifier.sidecar;
  const SidecarTraits& found = drafter.sidecar;
  const std::string message =
      absl::StrCat("the drafter has the sidecar ", Describe(found), "; the verifier ",
                   Describe(wanted), "; give both processes the same --mtp-path and restart them");
  const bool usable = found.kind == wanted.kind && found.max_drafts >= wanted.max_drafts;
  if (usable && found.depth == wanted.depth && found.window == wanted.window &&
      found.hash == wanted.hash) {
    return std::nullopt;
  }
  if (!usable || !drafter.force) return DraftRefusal{"SIDECAR_DIFFERS", message};
  LOG(WARNING) << "forced: " << message;
  return std::nullopt;
}

}  // namespace

std::optional<DraftRefusal> CheckDrafter(const VerifierFacts& verifier,
                                         const DrafterFacts& drafter) {
  if (auto refusal = CheckHost(verifier.identity, drafter.identity)) return refusal;
  if (auto refusal = CheckModel(verifier, drafter)) return refusal;
  return CheckSidecar(verifier, drafter);
}

}  // namespace tandem
