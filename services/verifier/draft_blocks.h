#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/ipc/channel.h"
#include "common/ipc/layout.h"
#include "common/ipc/region.h"
#include "kernels/backend.h"

namespace tandem {

inline constexpr int kDraftBlocks = 2;

// The shared memory of attachments, allocated once. There are two blocks so that a new attachment
// never gets one that an old drafter may still write.
class DraftBlocks final {
 public:
  // Before serving starts, on the thread that uses `backend`, which must outlive the blocks.
  // RESOURCE_EXHAUSTED, with the sizes, when memory is short. Without `device` mode the drafter can
  // only read the feature memory.
  static absl::StatusOr<std::unique_ptr<DraftBlocks>> Create(Backend* backend,
                                                             const ipc::LayoutSizes& sizes,
                                                             bool device = false);

  const ipc::Layout& layout() const { return layout_; }
  ipc::BlockView View(int block, uint64_t epoch) const;
  uint64_t feature_nonce(int block) const { return blocks_[block].feature_nonce; }
  // Descriptors of the control region and, on the CPU, of the feature memory.
  std::vector<int> descriptors(int block) const;
  // On a GPU, the 64 bytes by which another process maps the feature memory; empty on the CPU.
  std::string feature_handle(int block) const;

 private:
  struct Block {
    std::unique_ptr<ipc::Region> control;
    void* features = nullptr;  // [layout.feature_bytes], backend memory
    ExportHandle feature_handle;
    uint64_t feature_nonce = 0;
  };
  DraftBlocks() = default;
  ipc::Layout layout_;
  std::array<Block, kDraftBlocks> blocks_;
};

}  // namespace tandem
