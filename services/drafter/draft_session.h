#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/drafter/drafter.h"
#include "common/ipc/channel.h"
#include "common/ipc/region.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"
#include "services/drafter/attach_client.h"

namespace tandem {

// What a drafter is made from: the verifier's base model, mapped read-only and valid as long as
// `backend`.
struct DrafterInputs {
  Backend* backend = nullptr;
  std::string model;
  int layers = 0;
  ipc::LayoutSizes sizes;
  const float* embedding = nullptr;  // [V, C], LN0(emb)
  Matrix head;                       // [V, C]
};

// Called once per attachment with a backend of its own. An error ends the attachment.
using DrafterFactory =
    std::function<absl::StatusOr<std::unique_ptr<Drafter>>(const DrafterInputs& inputs)>;
using BackendFactory = std::function<std::unique_ptr<Backend>()>;

// All that one attachment maps and builds; gone with the object, so nothing of an epoch outlives
// it.
class DraftSession final {
 public:
  // Takes descriptors and handles, checks sizes, seals and every offset, maps, finds the nonces and
  // leaves the answer in the block. Errors name what does not fit.
  static absl::StatusOr<std::unique_ptr<DraftSession>> Open(const AttachOffer& offer,
                                                            const BackendFactory& make_backend,
                                                            const DrafterFactory& make_drafter);
  ~DraftSession();

  const ipc::DrafterChannel& channel() const { return channel_; }
  Drafter* drafter() const { return drafter_.get(); }
  Backend* backend() const { return backend_.get(); }
  // For the proof.
  uint64_t answer() const { return answer_; }

 private:
  DraftSession() = default;
  absl::Status Map(const AttachOffer& offer);
  absl::StatusOr<void*> MapDescriptors(const AttachOffer& offer, std::vector<ipc::UniqueFd> fds);
  absl::StatusOr<void*> MapHandles(const AttachOffer& offer);
  absl::Status Prove(const AttachOffer& offer, const ipc::BlockView& view, const void* features);

  std::unique_ptr<ipc::Region> control_;
  std::unique_ptr<Backend> backend_;
  const void* embedding_ = nullptr;  // backend memory
  const void* head_ = nullptr;       // backend memory
  std::unique_ptr<Drafter> drafter_;
  ipc::DrafterChannel channel_;
  uint64_t answer_ = 0;
};

}  // namespace tandem
