#include "common/model/pth/torch_types.h"

namespace tandem {
namespace {

struct TypeName {
  absl::string_view storage;
  absl::string_view dtype;
  DType value;
};

constexpr TypeName kTypes[] = {
    {"torch\nBFloat16Storage", "torch\nbfloat16", DType::kBf16},
    {"torch\nHalfStorage", "torch\nfloat16", DType::kFp16},
    {"torch\nFloatStorage", "torch\nfloat32", DType::kFp32},
    {"torch\nDoubleStorage", "torch\nfloat64", DType::kFp64},
    {"torch\nBoolStorage", "torch\nbool", DType::kBool},
    {"torch\nByteStorage", "torch\nuint8", DType::kUint8},
    {"torch\nCharStorage", "torch\nint8", DType::kInt8},
    {"torch\nShortStorage", "torch\nint16", DType::kInt16},
    {"torch\nIntStorage", "torch\nint32", DType::kInt32},
    {"torch\nLongStorage", "torch\nint64", DType::kInt64},
    {"", "torch\nfloat8_e4m3fn", DType::kFp8E4m3},
    {"", "torch\nfloat8_e5m2", DType::kFp8E5m2},
};

}  // namespace

std::optional<DType> StorageDType(absl::string_view global) {
  for (const TypeName& type : kTypes) {
    if (!type.storage.empty() && type.storage == global) return type.value;
  }
  return std::nullopt;
}

std::optional<DType> TorchDType(absl::string_view global) {
  for (const TypeName& type : kTypes) {
    if (type.dtype == global) return type.value;
  }
  return std::nullopt;
}

}  // namespace tandem
