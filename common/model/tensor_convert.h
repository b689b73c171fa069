#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/model/tensor_info.h"

namespace tandem {

// OK when every element of a bf16, fp16 or fp32 tensor is finite; else INVALID_ARGUMENT naming
// file, tensor and the first element that is not.
absl::Status CheckFinite(const TensorInfo& tensor);

// Copies a bf16, fp16 or fp32 tensor into `out`, which has its element count. `transpose` is for
// tensors of two axes [R, S], which arrive as [S, R].
void ConvertToFp32(const TensorInfo& tensor, bool transpose, absl::Span<float> out);

// The same as bf16 bits: exact from bf16, otherwise rounded to nearest even.
void ConvertToBf16(const TensorInfo& tensor, bool transpose, absl::Span<uint16_t> out);

// The bytes of a tensor of two axes [R, S] in the order of [S, R], in its own type.
std::vector<uint8_t> TransposedBytes(const TensorInfo& tensor);

}  // namespace tandem
