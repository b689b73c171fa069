#include "common/model/weights_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/unit/model/file_writers.h"
#include "tests/unit/model/tiny_model.h"

namespace tandem {
namespace {

constexpr char kDemo[] = "deploy/demo-model";

// Every tensor of `source` holds TinyValue of its canonical name.
void ExpectTinyValues(const WeightsSource& source) {
  for (const std::string& name : source.names()) {
    const std::vector<float> values = source.ReadFp32(name);
    std::vector<float> expected;
    for (size_t i = 0; i < values.size(); ++i) {
      expected.push_back(TinyValue(name, static_cast<int64_t>(i)));
    }
    EXPECT_EQ(values, expected) << name;
  }
}

// Numbers of the model card.
TEST(WeightsSourceTest, DemoModelIsAsItsCardSays) {
  const auto source = WeightsSource::Open(kDemo);
  ASSERT_TRUE(source.ok()) << source.status();
  const ModelConfig& config = (*source)->config();
  EXPECT_EQ(config.layers, 8);
  EXPECT_EQ(config.width, 256);
  EXPECT_EQ(config.heads, 4);
  EXPECT_EQ(config.ffn, 1024);
  EXPECT_EQ(config.vocab, 4096);
  EXPECT_EQ(config.decay_rank, 32);
  EXPECT_EQ(config.icl_rank, 32);
  EXPECT_EQ(config.value_rank, 32);
  EXPECT_EQ(config.gate_rank, 64);
  EXPECT_FALSE(config.embedding_normed);
  EXPECT_EQ((*source)->parameter_count(), 9067264);
  EXPECT_EQ((*source)->name(), "rwkv7-demo-9m");
  EXPECT_EQ((*source)->path().vocab, "deploy/demo-model/vocab.txt");
  for (const WeightsComponent& part : (*source)->components()) EXPECT_EQ(part.dtype, "bf16");
}

// 2·V·C, 12·C²·L, 2·C·(Dw+Da+Dv+Dg)·L less the factors that layer 0 lacks, 19·C·L + 4·C less v0 of
// layer 0.
TEST(WeightsSourceTest, ComponentsCountTheParametersThatAreRead) {
  const auto source = WeightsSource::Open(kDemo);
  ASSERT_TRUE(source.ok()) << source.status();
  const auto& parts = (*source)->components();
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0].parameters, 2 * 4096 * 256);
  EXPECT_EQ(parts[1].parameters, 12 * 256 * 256 * 8);
  EXPECT_EQ(parts[2].parameters, 2 * 256 * 160 * 8 - 2 * 256 * 32);
  EXPECT_EQ(parts[3].parameters, 19 * 256 * 8 + 4 * 256 - 256);
}

TEST(WeightsSourceTest, EveryLayoutContainerAndTypeReadsTheSameValues) {
  for (DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    const std::vector<TestTensor> tensors = TinyModel(dtype);
    const TempFolder folder;
    const std::string paths[] = {
        folder.Write("a/tiny.pth", PthOf(tensors)),
        folder.Write("b/tiny.pth", PthOf(tensors, /*zip64=*/true)),
        folder.Write("c/model.safetensors", SafetensorsOf(tensors)),
        folder.Write("d/model.safetensors", SafetensorsOf(ToOfficial(tensors))),
        folder.Write("e/model.safetensors", SafetensorsOf(ToFla(tensors))),
        folder.Write("f/tiny.pth", PthOf(ToFla(tensors))),
    };
    uint64_t hash = 0;
    for (const std::string& path : paths) {
      SCOPED_TRACE(absl::StrCat(path, " ", DTypeName(dtype)));
      const auto source = WeightsSource::Open(path);
      ASSERT_TRUE(source.ok()) << source.status();
      ExpectTinyValues(**source);
      // 4 of the model, 35 of layer 0 without v0, v1, v2, and 33 of layer 1 without ln0.
      EXPECT_EQ((*source)->names().size(), 4u + 32 + 33);
      EXPECT_EQ((*source)->Shape("blocks.1.att.w1"), (std::vector<int64_t>{64, 8}));
      EXPECT_EQ((*source)->Shape("blocks.1.att.x_r"), (std::vector<int64_t>{64}));
      EXPECT_EQ((*source)->dtype("blocks.1.att.w1"), dtype);
      if (hash == 0) hash = (*source)->content_hash();
      EXPECT_EQ((*source)->content_hash(), hash);
    }
  }
}

TEST(WeightsSourceTest, DerivesEveryDimensionFromItsOwnShape) {
  const TempFolder folder;
  const TinyShape shape = {.layers = 3, .width = 128, .vocab = 10};
  const auto source =
      WeightsSource::Open(folder.Write("tiny.pth", PthOf(TinyModel(DType::kFp32, shape))));
  ASSERT_TRUE(source.ok()) << source.status();
  const ModelConfig& config = (*source)->config();
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.width, 128);
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.ffn, 512);
  EXPECT_EQ(config.vocab, 10);
  EXPECT_EQ(config.decay_rank, 8);
  EXPECT_EQ(config.icl_rank, 16);
  EXPECT_EQ(config.value_rank, 4);
  EXPECT_EQ(config.gate_rank, 24);
}

TEST(WeightsSourceTest, LayerZeroValueFactorsMayBeAbsentOrDamaged) {
  const TempFolder folder;
  auto present = TinyModel(DType::kFp32);
  Find(present, "blocks.0.att.v1").bytes = Encode(std::vector<float>(64 * 4, NAN), DType::kFp32);
  const auto absent = TinyModel(DType::kFp32, {.layer_zero_value = false});
  const auto with = WeightsSource::Open(folder.Write("with.pth", PthOf(present)));
  const auto without = WeightsSource::Open(folder.Write("without.pth", PthOf(absent)));
  ASSERT_TRUE(with.ok()) << with.status();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ((*with)->content_hash(), (*without)->content_hash());
  EXPECT_FALSE((*with)->Has("blocks.0.att.v1"));
  EXPECT_EQ((*with)->config().value_rank, 4);
}

TEST(WeightsSourceTest, AModelOfOneLayerHasNoValueResidual) {
  const TempFolder folder;
  const auto source =
      WeightsSource::Open(folder.Write("one.pth", PthOf(TinyModel(DType::kFp32, {.layers = 1}))));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().layers, 1);
  EXPECT_EQ((*source)->config().value_rank, 0);
}

TEST(WeightsSourceTest, VectorsMayHaveLeadingAxesOfSizeOne) {
  const TempFolder folder;
  auto tensors = TinyModel(DType::kFp32);
  Find(tensors, "blocks.0.att.x_r").shape = {64};
  Find(tensors, "blocks.0.att.x_w").shape = {1, 64};
  Find(tensors, "ln_out.weight").shape = {1, 1, 64};
  Find(tensors, "blocks.1.att.r_k").shape = {1, 1, 1, 64};
  const auto source = WeightsSource::Open(folder.Write("tiny.pth", PthOf(tensors)));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->Shape("blocks.1.att.r_k"), (std::vector<int64_t>{1, 64}));
  ExpectTinyValues(**source);
}

TEST(WeightsSourceTest, TypesMayBeMixed) {
  const TempFolder folder;
  auto tensors = TinyModel(DType::kBf16);
  Find(tensors, "blocks.1.att.w0") = MakeTensor("blocks.1.att.w0", {1, 1, 64}, DType::kFp32);
  const auto source = WeightsSource::Open(folder.Write("tiny.pth", PthOf(tensors)));
  ASSERT_TRUE(source.ok()) << source.status();
  ExpectTinyValues(**source);
  EXPECT_EQ((*source)->dtype("blocks.1.att.w0"), DType::kFp32);
  EXPECT_EQ((*source)->components()[3].dtype, "bf16+fp32");
}

TEST(WeightsSourceTest, OneChangedValueChangesTheHash) {
  const TempFolder folder;
  auto tensors = TinyModel(DType::kBf16);
  const auto before = WeightsSource::Open(folder.Write("a.pth", PthOf(tensors)));
  Find(tensors, "blocks.1.att.a2").bytes[3] ^= 1;
  const auto after = WeightsSource::Open(folder.Write("b.pth", PthOf(tensors)));
  ASSERT_TRUE(before.ok() && after.ok());
  EXPECT_NE((*before)->content_hash(), (*after)->content_hash());
}

// The archive of an independent writer, which uses only the Python standard library.
TEST(WeightsSourceTest, ReadsTheArchiveOfAPythonScript) {
  const TempFolder folder;
  const std::string path = folder.path() + "/python.pth";
  const std::string command = "python3 tests/data/write_tiny_pth.py " + path;
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const auto source = WeightsSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().layers, 1);
  EXPECT_EQ((*source)->config().vocab, 5);
  // The script counts up in steps of 1/64 from each tensor's number in the file.
  const std::vector<float> emb = (*source)->ReadFp32("emb.weight");
  ASSERT_EQ(emb.size(), 5u * 64);
  EXPECT_EQ(emb[0], 0.0f);
  EXPECT_EQ(emb[65], 65.0f / 64);
  EXPECT_EQ((*source)->ReadFp32("head.weight")[1],
            (*source)->ReadFp32("head.weight")[0] + 1.0f / 64);
}

}  // namespace
}  // namespace tandem
