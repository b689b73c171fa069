#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/drafter/drafter.h"
#include "kernels/backend.h"
#include "kernels/linear/linear.h"

namespace tandem {

// What a drafter of any kind is made from. `embedding` and `head` must outlive the drafter.
struct DrafterSetup {
  std::string folder;                // of the drafter's own files
  bool force = false;                // a mismatch with the base model becomes a warning
  std::string base_name;             // of the loaded base model
  int layers = 0;                    // L of the base model
  int width = 0;                     // C
  int vocab = 0;                     // V
  const float* embedding = nullptr;  // [V, C] LN0(emb), in backend memory
  Matrix head;                       // [V, C] in backend memory
  int slots = 0;                     // S
  int max_lanes = 0;                 // lanes computed together
  int max_rows = 0;                  // positions computed together
};

struct LoadedDrafter {
  std::unique_ptr<Drafter> drafter;
  std::array<int, 2> taps = {};  // layers whose residual stream the features hold
  uint64_t content_hash = 0;     // of the drafter's weights
  std::vector<std::string> warnings;
};

// Loads a drafter of a kind named in kinds.def. INVALID_ARGUMENT naming the known kinds for any
// other; errors of the kind's own files name the file.
absl::StatusOr<LoadedDrafter> LoadDrafter(absl::string_view kind, Backend* backend,
                                          const DrafterSetup& setup);

}  // namespace tandem
