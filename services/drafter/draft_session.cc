#include "services/drafter/draft_session.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/ipc/descriptors.h"

namespace tandem {
namespace {

constexpr absl::Duration kDescriptorTimeout = absl::Seconds(5);
constexpr int kDescriptors = 4;  // control, features, embedding, head

absl::StatusOr<void*> ImportReadOnly(Backend* backend, const ipc::UniqueFd& fd, uint64_t bytes,
                                     const char* what) {
  const absl::Status sealed = ipc::CheckSealed(fd.get(), bytes);
  if (!sealed.ok()) return absl::Status(sealed.code(), absl::StrCat(what, ": ", sealed.message()));
  void* memory = backend->Import({.fd = fd.get(), .bytes = bytes}, /*writable=*/false);
  if (memory == nullptr) {
    return absl::InternalError(absl::StrCat(what, ": mapping ", bytes, " bytes failed"));
  }
  return memory;
}

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
  ASSIGN_OR_RETURN(std::vector<ipc::UniqueFd> fds,
                   ipc::TakeDescriptors(offer.descriptor_socket, offer.descriptor_token,
                                        kDescriptors, kDescriptorTimeout));
  ASSIGN_OR_RETURN(control_, ipc::Region::Map(std::move(fds[0]), offer.layout.control_bytes));
  ASSIGN_OR_RETURN(void* features,
                   ImportReadOnly(backend_.get(), fds[1], offer.layout.feature_bytes, "features"));
  ASSIGN_OR_RETURN(embedding_,
                   ImportReadOnly(backend_.get(), fds[2], offer.embedding_bytes, "embedding"));
  ASSIGN_OR_RETURN(head_, ImportReadOnly(backend_.get(), fds[3], offer.head_bytes, "head"));
  const ipc::BlockView view(offer.layout, control_->data(), features, offer.epoch);
  RETURN_IF_ERROR(Prove(offer, view, features));
  channel_ = ipc::DrafterChannel(view);
  return absl::OkStatus();
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
