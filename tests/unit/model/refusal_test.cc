#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "common/model/weights_source.h"
#include "tests/unit/model/file_writers.h"
#include "tests/unit/model/tiny_model.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<TestTensor>;

// A sound model with one fault, and what the error has to say besides the file.
struct Refusal {
  std::string name;
  std::function<void(Tensors&)> damage;
  std::vector<std::string> says;
};

void Add(Tensors& tensors, const std::string& name, const std::vector<int64_t>& shape = {64}) {
  tensors.push_back(MakeTensor(name, shape, DType::kFp32));
}

void Reshape(Tensors& tensors, const std::string& name, const std::vector<int64_t>& shape) {
  Find(tensors, name) = MakeTensor(name, shape, DType::kFp32);
}

void Rename(Tensors& tensors, const std::string& from, const std::string& to) {
  Find(tensors, from).name = to;
}

void SetElement(Tensors& tensors, const std::string& name, size_t index, float value) {
  Find(tensors, name).bytes.replace(index * 4, 4, Encode({value}, DType::kFp32));
}

Refusal AddedName(const std::string& name, const std::string& reason) {
  return {name, [name](Tensors& t) { Add(t, name); }, {name, reason}};
}

std::vector<Refusal> NameRefusals() {
  std::vector<Refusal> cases;
  for (const char* name : {"blocks.0.ffn.s_emb.weight", "blocks.0.ffn.s_emb_x.weight",
                           "blocks.0.ffn.s0", "blocks.1.ffn.s1", "blocks.1.ffn.s2"}) {
    cases.push_back(AddedName(name, "rwkv7a"));
  }
  cases.push_back(AddedName("blocks.1.qkv.q.weight", "rwkv7b"));
  for (const char* name : {"blocks.0.att.time_decay", "blocks.0.att.time_maa_x",
                           "blocks.0.att.time_mix_k", "blocks.0.att.gate.weight"}) {
    cases.push_back(AddedName(name, "RWKV-4, 5 or 6"));
  }
  for (const char* name : {"blocks.0.att.x_q", "blocks.1.ln0.weight", "blocks.01.ln1.weight",
                           "blocks.-1.ln1.weight", "blocks.99999999999.ln1.weight", "extra.weight",
                           "blocks.0.att.g0", "rwkv7.ln_out.weight"}) {
    cases.push_back(AddedName(name, "no tensor of this name"));
  }
  cases.push_back({"two layouts",
                   [](Tensors& t) {
                     Add(t, "rwkv7.emb.weight", {48, 64});
                   },
                   {"emb.weight and rwkv7.emb.weight"}});
  cases.push_back({"no embedding",
                   [](Tensors& t) { Erase(t, "emb.weight"); },
                   {"embedding tensors found: none"}});
  return cases;
}

std::vector<Refusal> PresenceRefusals() {
  std::vector<Refusal> cases;
  for (const char* name :
       {"head.weight", "ln_out.bias", "blocks.0.ln0.weight", "blocks.0.ln1.bias", "blocks.1.att.v0",
        "blocks.1.att.v1", "blocks.1.att.v2", "blocks.0.att.w0", "blocks.1.att.g2",
        "blocks.0.att.r_k", "blocks.1.ffn.value.weight"}) {
    cases.push_back({name, [name](Tensors& t) { Erase(t, name); }, {name, "missing"}});
  }
  const auto skip_layer = [](Tensors& t) {
    for (TestTensor& tensor : t) {
      if (tensor.name.rfind("blocks.1.", 0) == 0) tensor.name[7] = '2';
    }
  };
  cases.push_back({"layer index skipped", skip_layer, {"blocks.1.", "missing", "0 to 2"}});
  const auto no_layers = [](Tensors& t) {
    std::erase_if(t, [](const TestTensor& tensor) { return tensor.name.rfind("blocks.", 0) == 0; });
  };
  cases.push_back({"no layers", no_layers, {"blocks.0.", "missing"}});
  cases.push_back({"name twice",
                   [](Tensors& t) { Rename(t, "blocks.1.att.x_r", "blocks.0.att.x_r"); },
                   {"blocks.0.att.x_r", "twice"}});
  return cases;
}

Refusal Reshaped(const std::string& name, const std::vector<int64_t>& shape,
                 const std::string& expected) {
  return {name,
          [=](Tensors& t) { Reshape(t, name, shape); },
          {name, "shape " + ShapeString(shape), "expected " + expected}};
}

std::vector<Refusal> ShapeRefusals() {
  return {
      Reshaped("emb.weight", {48, 65}, "[V, C] with C a multiple of the head size 64"),
      Reshaped("emb.weight", {48, 32}, "[V, C] with C a multiple of the head size 64"),
      Reshaped("emb.weight", {48, 1, 64}, "[V, C]"),
      Reshaped("emb.weight", {0, 64}, "[V, C]"),
      Reshaped("head.weight", {47, 64}, "[48, 64]"),
      Reshaped("blocks.0.att.r_k", {2, 32}, "[1, 64]"),
      Reshaped("blocks.0.att.r_k", {64}, "[1, 64]"),
      Reshaped("blocks.1.ffn.key.weight", {128, 64}, "[256, 64]"),
      Reshaped("blocks.1.ffn.value.weight", {256, 64}, "[64, 256]"),
      Reshaped("blocks.1.att.output.weight", {64, 32}, "[64, 64]"),
      Reshaped("blocks.1.att.output.weight", {1, 64, 64}, "[64, 64]"),
      Reshaped("blocks.0.ln1.weight", {65}, "[64]"),
      Reshaped("blocks.0.att.x_k", {64, 1}, "[64]"),
      Reshaped("blocks.0.att.v1", {64, 5}, "[64, 4]"),
      // Ranks that differ between layers.
      Reshaped("blocks.1.att.w1", {64, 9}, "[64, 8]"),
      Reshaped("blocks.1.att.a2", {15, 64}, "[16, 64]"),
      // Factors as fla stores them, under .pth names.
      {"w1 turned",
       [](Tensors& t) {
         Reshape(t, "blocks.0.att.w1", {8, 64});
       },
       {"blocks.0.att.w1", "[8, 64]", "transposed"}},
      {"a2 turned",
       [](Tensors& t) {
         Reshape(t, "blocks.1.att.a2", {64, 16});
       },
       {"blocks.1.att.a2", "[64, 16]", "transposed"}},
  };
}

std::vector<Refusal> ValueRefusals() {
  const auto retype = [](DType dtype) {
    return [dtype](Tensors& t) {
      Find(t, "blocks.1.att.key.weight") = MakeTensor("blocks.1.att.key.weight", {64, 64}, dtype);
    };
  };
  return {
      {"int8", retype(DType::kInt8), {"blocks.1.att.key.weight", "type int8"}},
      {"int64", retype(DType::kInt64), {"blocks.1.att.key.weight", "type int64"}},
      {"fp64", retype(DType::kFp64), {"blocks.1.att.key.weight", "type fp64"}},
      {"fp8", retype(DType::kFp8E4m3), {"blocks.1.att.key.weight", "type fp8_e4m3"}},
      {"NaN",
       [](Tensors& t) { SetElement(t, "blocks.1.att.key.weight", 4095, NAN); },
       {"blocks.1.att.key.weight", "element 4095 of 4096 is NaN or infinite"}},
      {"infinity",
       [](Tensors& t) { SetElement(t, "ln_out.bias", 0, -INFINITY); },
       {"ln_out.bias", "element 0 of 64 is NaN or infinite"}},
  };
}

void ExpectRefused(const std::vector<Refusal>& cases) {
  const TempFolder folder;
  for (const Refusal& refusal : cases) {
    SCOPED_TRACE(refusal.name);
    Tensors tensors = TinyModel(DType::kFp32);
    refusal.damage(tensors);
    const std::string path = folder.Write("tiny.pth", PthOf(tensors));
    const auto source = WeightsSource::Open(path);
    ASSERT_FALSE(source.ok());
    EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(path));
    for (const std::string& text : refusal.says) {
      EXPECT_THAT(std::string(source.status().message()), HasSubstr(text));
    }
  }
}

TEST(RefusalTest, NamesOfOtherModels) { ExpectRefused(NameRefusals()); }
TEST(RefusalTest, MissingAndRepeatedTensors) { ExpectRefused(PresenceRefusals()); }
TEST(RefusalTest, Shapes) { ExpectRefused(ShapeRefusals()); }
TEST(RefusalTest, TypesAndValues) { ExpectRefused(ValueRefusals()); }

TEST(RefusalTest, OfficialAndFlaNamesAreCheckedAlike) {
  const TempFolder folder;
  auto official = ToOfficial(TinyModel(DType::kFp32));
  Find(official, "rwkv7.blocks.0.att.w1").shape = {8, 64};
  auto fla = ToFla(TinyModel(DType::kFp32));
  Find(fla, "model.layers.1.attn.w_lora.lora.0.weight").shape = {64, 8};
  auto prefixed_head = ToOfficial(TinyModel(DType::kFp32));
  Find(prefixed_head, "head.weight").name = "rwkv7.head.weight";
  const std::pair<Tensors, std::string> cases[] = {
      {official, "rwkv7.blocks.0.att.w1: shape [8, 64]; expected [C, rank]"},
      {fla, "model.layers.1.attn.w_lora.lora.0.weight: shape [64, 8]; expected [8, 64]"},
      {prefixed_head, "rwkv7.head.weight: RWKV-7 has no tensor of this name"},
  };
  for (const auto& [tensors, text] : cases) {
    const auto source =
        WeightsSource::Open(folder.Write("model.safetensors", SafetensorsOf(tensors)));
    ASSERT_FALSE(source.ok());
    EXPECT_THAT(std::string(source.status().message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace tandem
