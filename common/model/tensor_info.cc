#include "common/model/tensor_info.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace tandem {

size_t DTypeSize(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
    case DType::kInt8:
    case DType::kFp8E4m3:
    case DType::kFp8E5m2:
      return 1;
    case DType::kInt16:
    case DType::kFp16:
    case DType::kBf16:
      return 2;
    case DType::kInt32:
    case DType::kFp32:
      return 4;
    case DType::kInt64:
    case DType::kFp64:
      return 8;
  }
  CHECK(false) << "unknown type";
  return 0;
}

absl::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUint8:
      return "uint8";
    case DType::kInt8:
      return "int8";
    case DType::kInt16:
      return "int16";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFp8E4m3:
      return "fp8_e4m3";
    case DType::kFp8E5m2:
      return "fp8_e5m2";
    case DType::kFp16:
      return "fp16";
    case DType::kBf16:
      return "bf16";
    case DType::kFp32:
      return "fp32";
    case DType::kFp64:
      return "fp64";
  }
  CHECK(false) << "unknown type";
  return "";
}

bool IsLoadable(DType dtype) {
  return dtype == DType::kBf16 || dtype == DType::kFp16 || dtype == DType::kFp32;
}

bool IsTensorName(absl::string_view name) {
  return !name.empty() && name.size() <= 256 &&
         std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isgraph(c); });
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::StatusOr<int64_t> ElementCount(absl::Span<const int64_t> shape, DType dtype) {
  int64_t bytes = static_cast<int64_t>(DTypeSize(dtype));
  int64_t count = 1;
  for (int64_t axis : shape) {
    if (axis < 0 || __builtin_mul_overflow(count, axis, &count) ||
        __builtin_mul_overflow(bytes, axis, &bytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the shape ", ShapeString(shape), " is not that of a tensor in memory"));
    }
  }
  return count;
}

}  // namespace tandem
