#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/model/tensor_info.h"

namespace tandem {

// A tensor for a test file, with its own bytes.
struct TestTensor {
  std::string name;
  DType dtype = DType::kFp32;
  std::vector<int64_t> shape;
  std::string bytes;
};

// The dimensions of the tiny model: every one is different, so that a mixed-up axis shows.
struct TinyShape {
  int layers = 2;
  int width = 64;
  int vocab = 48;
  int decay = 8, icl = 16, value = 4, gate = 24;
  bool layer_zero_value = true;  // blocks.0.att.v0/v1/v2 are in the file
};

// Element `index` of the canonical tensor `name`: a multiple of 1/64 within +-0.5, exact in bf16,
// fp16 and fp32.
float TinyValue(absl::string_view name, int64_t index);

// The bytes of `values` in a type: float types (values as of TinyValue) and the integer types.
std::string Encode(const std::vector<float>& values, DType dtype);

// A tensor of TinyValue(name).
TestTensor MakeTensor(const std::string& name, const std::vector<int64_t>& shape, DType dtype);

// All tensors in the .pth layout; vectors have the shape [1, 1, C] where torch files have it.
std::vector<TestTensor> TinyModel(DType dtype, const TinyShape& shape = {});

// The same tensors under official names, and under fla names with the low-rank factors transposed.
std::vector<TestTensor> ToOfficial(std::vector<TestTensor> tensors);
std::vector<TestTensor> ToFla(const std::vector<TestTensor>& tensors);

// The tensor of that name; fails the process when there is none.
TestTensor& Find(std::vector<TestTensor>& tensors, absl::string_view name);
void Erase(std::vector<TestTensor>& tensors, absl::string_view name);

}  // namespace tandem
