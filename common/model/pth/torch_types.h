#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "common/model/tensor_info.h"

namespace tandem {

// Globals are written "module\nname", as they stand in a pickle.

// The element type of a storage class (torch.BFloat16Storage) or of a type (torch.bfloat16).
std::optional<DType> StorageDType(absl::string_view global);
std::optional<DType> TorchDType(absl::string_view global);

inline constexpr absl::string_view kOrderedDict = "collections\nOrderedDict";
inline constexpr absl::string_view kRebuildTensorV2 = "torch._utils\n_rebuild_tensor_v2";
inline constexpr absl::string_view kRebuildTensorV3 = "torch._utils\n_rebuild_tensor_v3";
inline constexpr absl::string_view kRebuildParameter = "torch._utils\n_rebuild_parameter";
inline constexpr absl::string_view kUntypedStorage = "torch.storage\nUntypedStorage";

}  // namespace tandem
