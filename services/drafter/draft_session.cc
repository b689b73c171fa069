#include "services/drafter/draft_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ipc/descriptors.h"
#include "common/ipc/handle.h"

namespace tandem {
namespace {

constexpr absl::Duration kDescriptorTimeout = absl::Seconds(5);
constexpr int kCpuDescriptors = 4;  // control, features, embedding, head
constexpr int kGpuDescriptors = 1;  // control

absl::StatusOr<void*> ImportDescriptor(Backend* backend, const ipc::UniqueFd& fd, uint64_t bytes,
                                       bool writable, const char* what) {
  const absl::Status sealed = ipc::CheckSealed(fd.get(), bytes);
  if (!sealed.ok()) return absl::Status(sealed.code(), absl::StrCat(what, ": ", sealed.message()));
  void* memory = backend->Import({.fd = fd.get(), .bytes = bytes}, writable);
  if (memory == nullptr) {
    return absl::InternalError(absl::StrCat(what, ": mapping ", bytes, " bytes failed"));
  }
  return memory;
}

absl::StatusOr<void*> ImportHandle(Backend* backend, const std::string& text, uint64_t bytes,
                                   const char* what) {
  const absl::StatusOr<ExportHandle> handle = ipc::HandleFrom(text, bytes);
  if (!handle.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("LAYOUT_MISMATCH: ", what, ": ", handle.status().message()));
  }
  void* memory = backend->Import(*handle, /*writable=*/false);
  if (memory == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "GPU_NOT_VISIBLE: ", what, ": mapping ", bytes,
        " bytes of the verifier's GPU memory failed; both processes must see the same GPU and be "
        "in one PID namespace"));
  }
  return memory;
}

bool OnCpu(const Backend& backend) { return absl::string_view(backend.name()) == "cpu"; }

bool IsWeightFormat(uint32_t number) {
  switch (static_cast<WeightFormat>(number)) {
#define TANDEM_WEIGHT_FORMAT(name, folder) case WeightFormat::k##name:
#include "kernels/linear/formats.def"
#undef TANDEM_WEIGHT_FORMAT
    return true;
  }
  return false;
}

absl::Status CheckOffer(const AttachOffer& offer) {
  if (offer.layout_version != ipc::kLayoutVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("LAYOUT_MISMATCH: step block of version ", offer.layout_version,
                     ", this build reads version ", ipc::kLayoutVersion));
  }
  const absl::Status layout = ipc::CheckLayout(offer.layout);
  if (!layout.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("LAYOUT_MISMATCH: ", layout.message()));
  }
  const ipc::LayoutSizes& sizes = offer.layout.sizes;
  const uint64_t entries = static_cast<uint64_t>(sizes.vocab) * static_cast<uint64_t>(sizes.width);
  if (offer.embedding_bytes < entries * sizeof(float)) {
    return absl::FailedPreconditionError(absl::StrCat("LAYOUT_MISMATCH: embedding of ",
                                                      offer.embedding_bytes, " bytes for [",
                                                      sizes.vocab, ", ", sizes.width, "]"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DraftSession>> DraftSession::Open(
    const AttachOffer& offer, const BackendFactory& make_backend,
    const DrafterFactory& make_drafter) {
  RETURN_IF_ERROR(CheckOffer(offer));
  std::unique_ptr<DraftSession> session(new DraftSession());
  session->backend_ = make_backend();
  if (session->backend_ == nullptr) return absl::ResourceExhaustedError("no backend");
  RETURN_IF_ERROR(session->Map(offer));
  const ipc::LayoutSizes& sizes = offer.layout.sizes;
  const auto format = static_cast<WeightFormat>(offer.head_format);
  if (!IsWeightFormat(offer.head_format) ||
      offer.head_bytes < session->backend_->PackedBytes(
                             {.format = format, .rows = sizes.vocab, .cols = sizes.width})) {
    return absl::FailedPreconditionError(absl::StrCat(
        "LAYOUT_MISMATCH: head of format ", offer.head_format, " in ", offer.head_bytes, " bytes"));
  }
  ASSIGN_OR_RETURN(session->drafter_,
                   make_drafter({.backend = session->backend_.get(),
                                 .model = offer.model,
                                 .layers = offer.layers,
                                 .sizes = sizes,
                                 .embedding = static_cast<const float*>(session->embedding_),
                                 .head = {.format = format,
                                          .rows = sizes.vocab,
                                          .cols = sizes.width,
                                          .data = session->head_}}));
  return session;
}

DraftSession::~DraftSession() = default;

absl::Status DraftSession::Map(const AttachOffer& offer) {
  const bool on_cpu = OnCpu(*backend_);
  ASSIGN_OR_RETURN(
      std::vector<ipc::UniqueFd> fds,
      ipc::TakeDescriptors(offer.descriptor_socket, offer.descriptor_token,
                           on_cpu ? kCpuDescriptors : kGpuDescriptors, kDescriptorTimeout));
  ASSIGN_OR_RETURN(control_, ipc::Region::Map(std::move(fds[0]), offer.layout.control_bytes));
  ASSIGN_OR_RETURN(void* const features,
                   on_cpu ? MapDescriptors(offer, std::move(fds)) : MapHandles(offer));
  const ipc::BlockView view(offer.layout, control_->data(), features, offer.epoch);
  RETURN_IF_ERROR(Prove(offer, view, features));
  channel_ = ipc::DrafterChannel(view);
  return absl::OkStatus();
}

// Returns the features.
absl::StatusOr<void*> DraftSession::MapDescriptors(const AttachOffer& offer,
                                                   std::vector<ipc::UniqueFd> fds) {
  ASSIGN_OR_RETURN(embedding_, ImportDescriptor(backend_.get(), fds[2], offer.embedding_bytes,
                                                false, "embedding"));
  ASSIGN_OR_RETURN(head_,
                   ImportDescriptor(backend_.get(), fds[3], offer.head_bytes, false, "head"));
  // In device mode the answers lie there too.
  return ImportDescriptor(backend_.get(), fds[1], offer.layout.feature_bytes, offer.device,
                          "features");
}

absl::StatusOr<void*> DraftSession::MapHandles(const AttachOffer& offer) {
  ASSIGN_OR_RETURN(embedding_, ImportHandle(backend_.get(), offer.embedding_handle,
                                            offer.embedding_bytes, "embedding"));
  ASSIGN_OR_RETURN(head_,
                   ImportHandle(backend_.get(), offer.head_handle, offer.head_bytes, "head"));
  return ImportHandle(backend_.get(), offer.feature_handle, offer.layout.feature_bytes, "features");
}

absl::Status DraftSession::Prove(const AttachOffer& offer, const ipc::BlockView& view,
                                 const void* features) {
  ipc::BlockHeader* header = view.header();
  if (header->magic != ipc::kMagic || header->layout_version != ipc::kLayoutVersion ||
      header->epoch != offer.epoch || header->nonce != offer.nonce) {
    return absl::FailedPreconditionError(
        "NONCE_FAILED: the mapped control region is not the one that was offered");
  }
  ipc::FeatureHeader feature_header;
  backend_->CopyOut(&feature_header, features, sizeof(feature_header));
  backend_->Wait();
  if (feature_header.magic != ipc::kMagic) {
    return absl::FailedPreconditionError(
        "NONCE_FAILED: the mapped feature memory is not the one that was offered");
  }
  answer_ = ipc::KeyedAnswer(offer.epoch, header->nonce, feature_header.nonce);
  header->answer = answer_;
  return absl::OkStatus();
}

}  // namespace tandem
