#include "tests/unit/model/tiny_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"

namespace tandem {
namespace {

template <typename T>
void Append(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Normal values and zero only.
uint16_t HalfBits(float value) {
  if (value == 0) return 0;
  const uint32_t bits = Bits(value);
  const int exponent = static_cast<int>((bits >> 23) & 255) - 127 + 15;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | (static_cast<uint32_t>(exponent) << 10) |
                               ((bits >> 13) & 1023));
}

TestTensor Transposed(const TestTensor& tensor) {
  TestTensor out = tensor;
  std::swap(out.shape[0], out.shape[1]);
  const auto rows = static_cast<size_t>(tensor.shape[0]);
  const auto columns = static_cast<size_t>(tensor.shape[1]);
  const size_t width = DTypeSize(tensor.dtype);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) {
      out.bytes.replace((c * rows + r) * width, width, tensor.bytes, (r * columns + c) * width,
                        width);
    }
  }
  return out;
}

}  // namespace

float TinyValue(absl::string_view name, int64_t index) {
  uint32_t hash = 2166136261u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  hash = (hash ^ static_cast<uint32_t>(index)) * 2654435761u;
  return (static_cast<float>((hash >> 16) % 65) - 32.0f) / 64.0f;
}

std::string Encode(const std::vector<float>& values, DType dtype) {
  std::string bytes;
  for (float value : values) {
    switch (dtype) {
      case DType::kFp32:
        Append(&bytes, value);
        break;
      case DType::kBf16:
        Append(&bytes, static_cast<uint16_t>(Bits(value) >> 16));
        break;
      case DType::kFp16:
        Append(&bytes, HalfBits(value));
        break;
      case DType::kInt64:
        Append(&bytes, static_cast<int64_t>(value));
        break;
      case DType::kFp64:
        Append(&bytes, static_cast<double>(value));
        break;
      default:
        CHECK_EQ(DTypeSize(dtype), 1u);
        Append(&bytes, static_cast<uint8_t>(1));
    }
  }
  return bytes;
}

TestTensor MakeTensor(const std::string& name, const std::vector<int64_t>& shape, DType dtype) {
  int64_t count = 1;
  for (int64_t axis : shape) count *= axis;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(TinyValue(name, i));
  return {.name = name, .dtype = dtype, .shape = shape, .bytes = Encode(values, dtype)};
}

std::vector<TestTensor> TinyModel(DType dtype, const TinyShape& shape) {
  const int64_t c = shape.width;
  std::vector<TestTensor> out;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& axes) {
    out.push_back(MakeTensor(name, axes, dtype));
  };
  add("emb.weight", {shape.vocab, c});
  for (int i = 0; i < shape.layers; ++i) {
    const std::string block = absl::StrCat("blocks.", i, ".");
    for (const char* norm : {"ln0", "ln1", "ln2", "att.ln_x"}) {
      if (i > 0 && norm == std::string("ln0")) continue;
      add(absl::StrCat(block, norm, ".weight"), {c});
      add(absl::StrCat(block, norm, ".bias"), {c});
    }
    for (const char* vector : {"x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "k_k", "k_a"}) {
      add(absl::StrCat(block, "att.", vector), {1, 1, c});
    }
    add(block + "att.r_k", {c / 64, 64});
    const std::pair<std::string, int64_t> ranks[] = {
        {"w", shape.decay}, {"a", shape.icl}, {"v", shape.value}, {"g", shape.gate}};
    for (const auto& [letter, rank] : ranks) {
      if (letter == "v" && i == 0 && !shape.layer_zero_value) continue;
      if (letter != "g") add(absl::StrCat(block, "att.", letter, "0"), {1, 1, c});
      add(absl::StrCat(block, "att.", letter, "1"), {c, rank});
      add(absl::StrCat(block, "att.", letter, "2"), {rank, c});
    }
    for (const char* matrix : {"receptance", "key", "value", "output"}) {
      add(absl::StrCat(block, "att.", matrix, ".weight"), {c, c});
    }
    add(block + "ffn.x_k", {1, 1, c});
    add(block + "ffn.key.weight", {4 * c, c});
    add(block + "ffn.value.weight", {c, 4 * c});
  }
  add("ln_out.weight", {c});
  add("ln_out.bias", {c});
  add("head.weight", {shape.vocab, c});
  return out;
}

std::vector<TestTensor> ToOfficial(std::vector<TestTensor> tensors) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name != "head.weight") tensor.name = "rwkv7." + tensor.name;
  }
  return tensors;
}

std::vector<TestTensor> ToFla(const std::vector<TestTensor>& tensors) {
  std::vector<TestTensor> out;
  for (const TestTensor& tensor : tensors) {
    TestTensor copy = tensor;
    const absl::string_view name = tensor.name;
    const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
    const bool low_rank = last.size() == 2 && absl::StrContains("wavg", last.substr(0, 1)) &&
                          absl::StrContains("012", last.substr(1));
    if (low_rank && last[1] != '0') copy = Transposed(tensor);
    if (low_rank) {
      const char* suffix = last[1] == '0'   ? "_lora.lora.2.bias"
                           : last[1] == '1' ? "_lora.lora.0.weight"
                                            : "_lora.lora.2.weight";
      copy.name = absl::StrCat(name.substr(0, name.size() - 2), last.substr(0, 1), suffix);
    }
    // fla keeps the x of the attention as [1, 1, C] and every other vector as [C].
    if (copy.shape.size() == 3 && !absl::StrContains(name, ".att.x_")) copy.shape = {copy.shape[2]};
    copy.name = absl::StrReplaceAll(copy.name, {{"blocks.", "model.layers."},
                                                {".ln0.", ".pre_norm."},
                                                {".ln1.", ".attn_norm."},
                                                {".ln2.", ".ffn_norm."},
                                                {".att.ln_x.", ".attn.g_norm."},
                                                {".att.receptance.", ".attn.r_proj."},
                                                {".att.key.", ".attn.k_proj."},
                                                {".att.value.", ".attn.v_proj."},
                                                {".att.output.", ".attn.o_proj."},
                                                {".att.", ".attn."},
                                                {"ln_out.", "model.norm."},
                                                {"head.weight", "lm_head.weight"},
                                                {"emb.weight", "model.embeddings.weight"}});
    out.push_back(std::move(copy));
  }
  return out;
}

TestTensor& Find(std::vector<TestTensor>& tensors, absl::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const TestTensor& tensor) { return tensor.name == name; });
  CHECK(found != tensors.end()) << "no tensor " << name;
  return *found;
}

void Erase(std::vector<TestTensor>& tensors, absl::string_view name) {
  const TestTensor* tensor = &Find(tensors, name);
  tensors.erase(tensors.begin() + (tensor - tensors.data()));
}

}  // namespace tandem
