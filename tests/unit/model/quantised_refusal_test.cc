// Quantised files that are refused, and what the error says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/model/weights_source.h"
#include "tests/unit/model/file_writers.h"
#include "tests/unit/model/quantised_files.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<TestTensor>;

constexpr char kKey[] = "blocks.1.att.key.weight";     // [64, 64]
constexpr char kWide[] = "blocks.1.ffn.value.weight";  // [64, 256]
const std::string kKeyScale = std::string(kKey) + ".fp8_scale";
const std::string kWideScale = std::string(kWide) + ".fp8_scale";

// A model with one fault, and what the error says besides the file.
struct Refusal {
  std::string name;
  std::function<void(Tensors&)> make;
  std::vector<std::string> says;
  std::string scheme = "";  // of quant_meta
};

std::function<void(Tensors&)> Quantised(const std::string& name, Stored stored,
                                        const std::function<void(Tensors&)>& damage = nullptr) {
  return [=](Tensors& tensors) {
    QuantiseIn(tensors, name, stored);
    if (damage) damage(tensors);
  };
}

void Rescale(Tensors& tensors, const std::string& name, const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t axis : shape) count *= axis;
  TestTensor& scale = Find(tensors, name);
  scale.shape = shape;
  scale.bytes = Encode(std::vector<float>(static_cast<size_t>(count), 0.5f), DType::kFp32);
}

void Add(Tensors& tensors, const std::string& name, DType dtype,
         const std::vector<int64_t>& shape) {
  tensors.push_back(MakeTensor(name, shape, dtype));
}

void SetByte(Tensors& tensors, const std::string& name, size_t index, int value) {
  Find(tensors, name).bytes[index] = static_cast<char>(value);
}

void SetScale(Tensors& tensors, const std::string& name, size_t index, float value) {
  Find(tensors, name).bytes.replace(index * 4, 4, Encode({value}, DType::kFp32));
}

std::vector<Refusal> Schemes() {
  std::vector<Refusal> cases;
  const auto added = [&](const std::string& suffix, const std::string& reason) {
    const std::string name = std::string(kKey) + suffix;
    cases.push_back(
        {suffix, [name](Tensors& t) { Add(t, name, DType::kFp32, {64}); }, {name, reason}});
  };
  for (const char* suffix : {".int8_w_u8", ".int8_mx", ".int8_rx", ".int8_my", ".int8_ry"})
    added(suffix, "int8 with an affine map, which this build does not load");
  for (const char* suffix : {".int4_packed", ".int4_scale", ".int4_scales", ".int4_zeros",
                             ".int4_group_size", ".int4_mx"})
    added(suffix, "int4, which this build does not load");
  for (const char* suffix : {".awq_scale", "_scale", ".weight_scale", ".input_scale"})
    added(suffix, "a quantisation scheme that this build does not load");
  cases.push_back({"simulated int8_affine",
                   [](Tensors&) {},
                   {"quant_meta", "int8_affine", "values are damaged"},
                   "int8_affine"});
  return cases;
}

std::vector<Refusal> Scales() {
  return {
      {"one scale per input",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { Rescale(t, kWideScale, {256}); }),
       {kWideScale, "shape [256] for a matrix [64, 256]: one scale per input", "per output [64]"}},
      {"one scale per input, although the mark says per output",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { Rescale(t, kWideScale, {256}); }),
       {kWideScale, "one scale per input"},
       "fp8_perchannel"},
      {"square without a mark",
       Quantised(kKey, Stored::kFp8),
       {kKeyScale, "one scale per output or one per input", "fp8_perchannel"}},
      {"square with another mark",
       Quantised(kKey, Stored::kFp8),
       {kKeyScale, "one scale per output or one per input"},
       "fp8"},
      {"square int8 with the mark of fp8",
       Quantised(kKey, Stored::kInt8),
       {kKeyScale, "int8_perchannel"},
       "fp8_perchannel"},
      {"a scale of another length",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { Rescale(t, kWideScale, {63}); }),
       {kWideScale, "shape [63]", "one number, or one per output [64]"}},
      {"a scale of two axes",
       Quantised(kWide, Stored::kInt8,
                 [](Tensors& t) {
                   Rescale(t, kWideScale, {64, 1});
                 }),
       {kWideScale, "shape [64, 1]", "one number, or one per output [64]"}},
      {"no number at all",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { Rescale(t, kWideScale, {0}); }),
       {kWideScale, "shape [0]"}},
      {"a scale of integers",
       Quantised(
           kKey, Stored::kFp8PerTensor,
           [](Tensors& t) { Find(t, kKeyScale) = MakeTensor(kKeyScale, {1}, DType::kInt64); }),
       {kKeyScale, "type int64; expected fp32"}},
      {"a scale that is not finite",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { SetScale(t, kWideScale, 7, INFINITY); }),
       {kWideScale, "element 7 of 64 is NaN or infinite"}},
      {"a negative scale",
       Quantised(kWide, Stored::kFp8, [](Tensors& t) { SetScale(t, kWideScale, 7, -1.0f); }),
       {kWideScale, "element 7 of 64 is -1"}},
  };
}

std::vector<Refusal> Parts() {
  const std::string key = kKey;
  return {
      {"fp8 without a scale",
       Quantised(kKey, Stored::kFp8PerTensor, [](Tensors& t) { Erase(t, kKeyScale); }),
       {kKey, "type fp8_e4m3 without a scale", kKeyScale}},
      {"int8 without a scale",
       Quantised(kKey, Stored::kInt8PerTensor, [](Tensors& t) { Erase(t, kKeyScale); }),
       {kKey, "type int8 without a scale"}},
      {"a scale beside bf16",
       [](Tensors& t) { Add(t, kKeyScale, DType::kFp32, {}); },
       {kKeyScale, "type bf16; expected fp8_e4m3 or int8"}},
      {"a scale beside nothing",
       Quantised(kKey, Stored::kFp8PerTensor, [](Tensors& t) { Erase(t, kKey); }),
       {kKeyScale, "for one matrix"}},
      {"e5m2",
       Quantised(kKey, Stored::kFp8PerTensor,
                 [](Tensors& t) { Find(t, kKey).dtype = DType::kFp8E5m2; }),
       {kKeyScale, "type fp8_e5m2; expected fp8_e4m3 or int8"}},
      {"twice",
       Quantised(kWide, Stored::kInt8Weight,
                 [](Tensors& t) {
                   Add(t, kWide, DType::kBf16, {64, 256});
                 }),
       {"for one matrix", ".int8_weight and ", ".int8_scale"}},
      {"int8_weight without its scale",
       Quantised(kWide, Stored::kInt8Weight,
                 [](Tensors& t) { Erase(t, std::string(kWide) + ".int8_scale"); }),
       {".int8_weight", "for one matrix"}},
      {"int8_weight of another type",
       Quantised(
           kWide, Stored::kInt8Weight,
           [](Tensors& t) { Find(t, std::string(kWide) + ".int8_weight").dtype = DType::kUint8; }),
       {".int8_weight", "type uint8; expected int8"}},
      {"int6 without its lower bits",
       Quantised(kKey, Stored::kInt6, [key](Tensors& t) { Erase(t, key + ".int6_lo"); }),
       {".int6_hi", ".int6_scale", "for one matrix"}},
      {"int6 with scales of fp32",
       Quantised(
           kKey, Stored::kInt6,
           [key](Tensors& t) {
             Find(t, key + ".int6_scale") = MakeTensor(key + ".int6_scale", {64, 1}, DType::kFp32);
           }),
       {".int6_scale", "type fp32; expected bf16"}},
      {"a quantised embedding",
       [](Tensors& t) { Add(t, "emb.weight.fp8_scale", DType::kFp32, {}); },
       {"emb.weight.fp8_scale", "only the six matrices of a layer and the head"}},
      {"a quantised low-rank factor",
       [](Tensors& t) {
         Find(t, "blocks.1.att.w1").dtype = DType::kFp8E4m3;
         Find(t, "blocks.1.att.w1").bytes.resize(64 * 8);
       },
       {"blocks.1.att.w1", "type fp8_e4m3; expected bf16, fp16 or fp32"}},
      {"a head of int6",
       Quantised("head.weight", Stored::kInt6),
       {"head.weight.int6_hi", "a head of int6; expected bf16, fp8 or int8"}},
  };
}

std::vector<Refusal> Values() {
  const std::string key = kKey;
  return {
      {"a matrix of another shape",
       Quantised(kKey, Stored::kFp8PerTensor,
                 [](Tensors& t) {
                   Find(t, kKey).shape = {32, 128};
                 }),
       {kKey, "shape [32, 128]; expected [64, 64]"}},
      {"upper bits of another shape",
       Quantised(kKey, Stored::kInt6,
                 [key](Tensors& t) {
                   Find(t, key + ".int6_hi").shape = {32, 64};
                 }),
       {".int6_hi", "shape [32, 64]; expected [64, 32]"}},
      {"lower bits of another shape",
       Quantised(kKey, Stored::kInt6,
                 [key](Tensors& t) {
                   Find(t, key + ".int6_lo").shape = {16, 64};
                 }),
       {".int6_lo", "shape [16, 64]; expected [64, 16]"}},
      {"group scales of another shape",
       Quantised(kWide, Stored::kInt6,
                 [](Tensors& t) {
                   Find(t, std::string(kWide) + ".int6_scale").shape = {4, 64};
                 }),
       {".int6_scale", "shape [4, 64]; expected [64, 4]"}},
      {"NaN of fp8",
       Quantised(kKey, Stored::kFp8PerTensor, [](Tensors& t) { SetByte(t, kKey, 4095, 0xff); }),
       {kKey, "element 4095 of 4096 is NaN"}},
      {"-128 of int8",
       Quantised(kKey, Stored::kInt8PerTensor, [](Tensors& t) { SetByte(t, kKey, 10, -128); }),
       {kKey, "element 10 of 4096 is -128"}},
      {"-32 of int6",
       Quantised(kKey, Stored::kInt6,
                 [key](Tensors& t) {
                   SetByte(t, key + ".int6_hi", 4, 0x00);
                   SetByte(t, key + ".int6_lo", 2, 0x00);
                 }),
       {".int6_hi", "element 8 of 4096 is the code 0; expected 1 to 63"}},
      {"a group of scale 0 that is not zero",
       Quantised(kKey, Stored::kInt6,
                 [key](Tensors& t) {
                   Find(t, key + ".int6_scale").bytes.replace(0, 2, std::string(2, '\0'));
                 }),
       {".int6_hi", "in a group of scale 0; expected 32"}},
  };
}

void ExpectRefused(const std::vector<Refusal>& cases) {
  const TempFolder folder;
  for (const Refusal& refusal : cases) {
    SCOPED_TRACE(refusal.name);
    Tensors tensors = UnevenModel();
    refusal.make(tensors);
    const std::string path = folder.Write("tiny.pth", PthOf(tensors, false, refusal.scheme));
    const auto source = WeightsSource::Open(path);
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(source.status().message()), testing::Not(HasSubstr("\n")));
    for (const std::string& text : refusal.says)
      EXPECT_THAT(std::string(source.status().message()), HasSubstr(text));
  }
}

TEST(QuantisedRefusalTest, OtherSchemes) { ExpectRefused(Schemes()); }
TEST(QuantisedRefusalTest, ScalesThatDoNotFit) { ExpectRefused(Scales()); }
TEST(QuantisedRefusalTest, PartsThatMakeNoMatrix) { ExpectRefused(Parts()); }
TEST(QuantisedRefusalTest, ShapesAndValues) { ExpectRefused(Values()); }

}  // namespace
}  // namespace tandem
