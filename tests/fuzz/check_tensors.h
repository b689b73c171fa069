#pragma once

#include <vector>

#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/model/tensor_info.h"

namespace tandem {

// What a reader promises for every tensor that it returns: a shape that fits its bytes, bytes that
// lie inside the file.
inline void CheckTensors(const std::vector<TensorInfo>& tensors, absl::Span<const uint8_t> file) {
  for (const TensorInfo& tensor : tensors) {
    const auto count = ElementCount(tensor.shape, tensor.dtype);
    CHECK(count.ok()) << tensor.name;
    CHECK_EQ(tensor.bytes.size(), static_cast<size_t>(*count) * DTypeSize(tensor.dtype));
    CHECK(tensor.bytes.empty() ||
          (tensor.bytes.data() >= file.data() &&
           tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()))
        << tensor.name;
  }
}

}  // namespace tandem
