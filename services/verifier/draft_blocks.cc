#include "services/verifier/draft_blocks.h"

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status_macros.h"
#include "common/ipc/handle.h"

namespace tandem {

absl::StatusOr<std::unique_ptr<DraftBlocks>> DraftBlocks::Create(Backend* backend,
                                                                 const ipc::LayoutSizes& sizes,
                                                                 bool device) {
  std::unique_ptr<DraftBlocks> blocks(new DraftBlocks());
  ASSIGN_OR_RETURN(blocks->layout_, ipc::ComputeLayout(sizes));
  const ipc::Layout& layout = blocks->layout_;
  for (Block& block : blocks->blocks_) {
    ASSIGN_OR_RETURN(block.control, ipc::Region::Create("tandem-draft", layout.control_bytes));
    block.features = backend->AllocateExported(layout.feature_bytes, &block.feature_handle);
    if (block.features == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for the features shared with a drafter: ", layout.feature_bytes,
                       " bytes; lower --prefill-budget or --max-sequences"));
    }
    block.feature_nonce = RandomBits();
    const ipc::FeatureHeader header = {.magic = ipc::kMagic, .nonce = block.feature_nonce};
    backend->CopyIn(block.features, &header, sizeof(header));
    if (!device && !backend->SealForReaders(block.feature_handle)) {
      return absl::InternalError("features shared with a drafter cannot be made read-only for it");
    }
  }
  backend->Wait();
  return blocks;
}

ipc::BlockView DraftBlocks::View(int block, uint64_t epoch) const {
  return ipc::BlockView(layout_, blocks_[block].control->data(), blocks_[block].features, epoch);
}

std::vector<int> DraftBlocks::descriptors(int block) const {
  const int features = blocks_[block].feature_handle.fd;
  if (features < 0) return {blocks_[block].control->fd()};
  return {blocks_[block].control->fd(), features};
}

std::string DraftBlocks::feature_handle(int block) const {
  return ipc::HandleBytes(blocks_[block].feature_handle);
}

}  // namespace tandem
