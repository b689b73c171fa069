#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

enum class DType {
  kBool,
  kUint8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp8E4m3,
  kFp8E5m2,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
};

// The most tensors that one file may list: the largest RWKV-7 has 2,200.
inline constexpr size_t kMaxTensors = 65536;

// Bytes of one element.
size_t DTypeSize(DType dtype);

// "bf16", "fp32", "int64", ...
absl::string_view DTypeName(DType dtype);

// True for the types that this build computes with: bf16, fp16, fp32.
bool IsLoadable(DType dtype);

// One tensor of a weight file: row-major, contiguous, little-endian.
struct TensorInfo {
  std::string name;  // as in the file
  DType dtype = DType::kBf16;
  std::vector<int64_t> shape;
  std::string file;  // the file that holds it, for messages
  absl::Span<const uint8_t>
      bytes;  // exactly the elements; no alignment is promised; owned by the TensorFile
};

// True for 1 to 256 printable ASCII characters without a space: what a tensor may be called.
bool IsTensorName(absl::string_view name);

// "[256, 64]".
std::string ShapeString(absl::Span<const int64_t> shape);

// The product of the axes; INVALID_ARGUMENT for a negative axis or a product of bytes beyond int64.
absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape, DType dtype);

}  // namespace tandem
