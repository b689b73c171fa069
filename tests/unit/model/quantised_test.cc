// Files that are quantised already: loaded as they are, and what is said about them.
#include "common/model/quantised.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/model/weight_format.h"
#include "common/model/weights.h"
#include "common/model/weights_layers.h"
#include "kernels/linear/linear_cpu.h"
#include "tests/kernels/e4m3_values.h"
#include "tests/unit/model/file_writers.h"
#include "tests/unit/model/quantised_files.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<TestTensor>;

// A file on the CPU backend.
struct Model {
  std::unique_ptr<WeightsSource> source;
  std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  std::unique_ptr<ModelWeights> weights;

  std::vector<Matrix> Matrices() const {
    std::vector<Matrix> all;
    for (const LayerWeights& layer : weights->layers().layers) {
      for (const Matrix& matrix : {layer.receptance, layer.key, layer.value, layer.output,
                                   layer.ffn_key, layer.ffn_value}) {
        all.push_back(matrix);
      }
    }
    return all;
  }
};

Model Open(const std::string& path, const WeightsOptions& options = {}) {
  Model model;
  auto source = WeightsSource::Open(path);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return model;
  model.source = *std::move(source);
  auto weights = ModelWeights::Load(model.backend.get(), *model.source, options);
  EXPECT_TRUE(weights.ok()) << weights.status();
  if (weights.ok()) model.weights = *std::move(weights);
  return model;
}

void ExpectSameMatrix(const Backend& backend, const Matrix& actual, const Matrix& expected) {
  ASSERT_EQ(actual.format, expected.format);
  ASSERT_EQ(actual.rows, expected.rows);
  ASSERT_EQ(actual.cols, expected.cols);
  EXPECT_EQ(actual.sparse_inputs, expected.sparse_inputs);
  EXPECT_EQ(std::memcmp(actual.data, expected.data, backend.PackedBytes(expected)), 0);
}

struct Case {
  Stored stored;
  WeightFormat format;
};
constexpr Case kPerOutput[] = {{Stored::kFp8, WeightFormat::kFp8},
                               {Stored::kInt8, WeightFormat::kInt8},
                               {Stored::kInt8Weight, WeightFormat::kInt8},
                               {Stored::kInt6, WeightFormat::kInt6}};

std::string MarkOf(WeightFormat format) {
  return absl::StrCat(WeightFormatName(format), "_perchannel");
}

TEST(QuantisedTest, MemoryHasTheBitsThatRoundingWhileLoadingGives) {
  const TempFolder folder;
  const Tensors plain = UnevenModel();
  const std::string plain_path = folder.Write("plain.pth", PthOf(plain));
  for (const auto& [stored, format] : kPerOutput) {
    SCOPED_TRACE(static_cast<int>(stored));
    const Model expected = Open(plain_path, {.matrices = format});
    Tensors tensors = plain;
    QuantiseAll(tensors, stored);
    const std::string mark = MarkOf(format);
    for (const std::string& path : {folder.Write("q.pth", PthOf(tensors, false, mark)),
                                    folder.Write("q.safetensors", SafetensorsOf(tensors, mark))}) {
      const Model actual = Open(path);
      ASSERT_NE(actual.weights, nullptr);
      const std::vector<Matrix> matrices = actual.Matrices(), wanted = expected.Matrices();
      ASSERT_EQ(matrices.size(), 12u);
      for (size_t i = 0; i < matrices.size(); ++i)
        ExpectSameMatrix(*actual.backend, matrices[i], wanted[i]);
      EXPECT_EQ(actual.weights->FormatText(), WeightFormatName(format));
    }
  }
}

// Every weight is its code's value times the one scale.
TEST(QuantisedTest, OneScaleForAMatrixCountsForEveryOutput) {
  const TempFolder folder;
  for (const Stored stored : {Stored::kFp8PerTensor, Stored::kInt8PerTensor}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, std::vector<int64_t>{1}}) {
      Tensors tensors = UnevenModel();
      QuantiseAll(tensors, stored);
      const std::vector<std::string> names = MatrixNames();
      for (const std::string& name : names) Find(tensors, name + ".fp8_scale").shape = shape;
      const Model model = Open(folder.Write("q.pth", PthOf(tensors)));
      ASSERT_NE(model.weights, nullptr);
      const std::vector<Matrix> matrices = model.Matrices();
      for (size_t i = 0; i < matrices.size(); ++i) {
        const std::string& codes = Find(tensors, names[i]).bytes;
        float scale;
        std::memcpy(&scale, Find(tensors, names[i] + ".fp8_scale").bytes.data(), sizeof(scale));
        std::vector<float> row(static_cast<size_t>(matrices[i].cols));
        for (int n = 0; n < matrices[i].rows; ++n) {
          EXPECT_EQ(LinearUnpackRow(matrices[i], n, row.data()), scale);
          for (size_t k = 0; k < row.size(); ++k) {
            const char code = codes[static_cast<size_t>(n) * row.size() + k];
            ASSERT_EQ(row[k], stored == Stored::kFp8PerTensor
                                  ? E4m3Value(static_cast<uint8_t>(code))
                                  : static_cast<signed char>(code));
          }
        }
      }
    }
  }
}

TEST(QuantisedTest, LayersMayDiffer) {
  const TempFolder folder;
  Tensors tensors = UnevenModel();
  for (const std::string& name : MatrixNames()) {
    if (absl::StartsWith(name, "blocks.1.")) QuantiseIn(tensors, name, Stored::kFp8PerTensor);
  }
  QuantiseIn(tensors, "blocks.0.ffn.key.weight", Stored::kInt6);
  const std::string path = folder.Write("q.pth", PthOf(tensors));
  const Model model = Open(path);
  ASSERT_NE(model.weights, nullptr);
  EXPECT_EQ(model.weights->FormatText(), "bf16+fp8+int6");
  const LayerWeights& first = model.weights->layers().layers[0];
  EXPECT_EQ(first.key.format, WeightFormat::kBf16);
  EXPECT_EQ(first.ffn_key.format, WeightFormat::kInt6);
  EXPECT_EQ(model.source->format("blocks.0.ffn.key.weight"), WeightFormat::kInt6);
  EXPECT_EQ(model.source->Shape("blocks.0.ffn.key.weight"), (std::vector<int64_t>{256, 64}));
  EXPECT_EQ(model.source->format("blocks.1.att.key.weight"), WeightFormat::kFp8);
  EXPECT_EQ(model.source->format("emb.weight"), WeightFormat::kBf16);
  EXPECT_EQ(model.source->components()[1].dtype, "bf16+fp8+int6");
  EXPECT_EQ(model.source->components()[1].parameters, 12 * 64 * 64 * 2);
}

TEST(QuantisedTest, TheHeadMayBeQuantised) {
  const TempFolder folder;
  const Tensors plain = UnevenModel();
  const std::string plain_path = folder.Write("plain.pth", PthOf(plain));
  for (const auto& [stored, format] :
       {Case{Stored::kFp8, WeightFormat::kFp8}, Case{Stored::kInt8Weight, WeightFormat::kInt8}}) {
    Tensors tensors = plain;
    QuantiseIn(tensors, "head.weight", stored);
    const Model expected = Open(plain_path, {.head = format});
    const Model actual = Open(folder.Write("q.pth", PthOf(tensors)));
    ASSERT_NE(actual.weights, nullptr);
    ExpectSameMatrix(*actual.backend, actual.weights->head(), expected.weights->head());
    EXPECT_EQ(actual.weights->FormatText(), absl::StrCat("bf16, head ", WeightFormatName(format)));
  }
}

TEST(QuantisedTest, WhatTheFileHasNotQuantisedIsRoundedOnRequest) {
  const TempFolder folder;
  Tensors tensors = UnevenModel();
  QuantiseIn(tensors, "blocks.1.ffn.value.weight", Stored::kFp8);
  const std::string path = folder.Write("q.pth", PthOf(tensors));
  const Model model = Open(path, {.matrices = WeightFormat::kFp8});
  ASSERT_NE(model.weights, nullptr);
  EXPECT_EQ(model.weights->FormatText(), "fp8");
}

TEST(QuantisedTest, AnotherFormatThanTheFilesIsRefused) {
  const TempFolder folder;
  Tensors tensors = UnevenModel();
  QuantiseAll(tensors, Stored::kFp8PerTensor);
  QuantiseIn(tensors, "head.weight", Stored::kInt8PerTensor);
  const std::string path = folder.Write("q.pth", PthOf(tensors));
  const auto source = WeightsSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  const struct {
    WeightsOptions options;
    const char* says;
  } cases[] = {
      {{.matrices = WeightFormat::kBf16}, "stored as fp8, which --weights=bf16 does not change"},
      {{.matrices = WeightFormat::kInt6}, "stored as fp8, which --weights=int6 does not change"},
      {{.head = WeightFormat::kFp8}, "head.weight: stored as int8, which --head-weights=fp8"},
  };
  for (const auto& [options, says] : cases) {
    const auto weights = ModelWeights::Load(backend.get(), **source, options);
    ASSERT_EQ(weights.status().code(), absl::StatusCode::kInvalidArgument) << says;
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr(says));
    EXPECT_THAT(std::string(weights.status().message()), HasSubstr("while it is loaded"));
  }
  EXPECT_TRUE(ModelWeights::Load(backend.get(), **source,
                                 {.matrices = WeightFormat::kFp8, .head = WeightFormat::kInt8})
                  .ok());
}

TEST(QuantisedTest, EveryLayoutIsOneModel) {
  const TempFolder folder;
  Tensors tensors = UnevenModel();
  QuantiseAll(tensors, Stored::kInt8PerTensor);
  Tensors named = UnevenModel();
  for (const std::string& name : MatrixNames()) {
    std::vector<TestTensor> parts = Quantise(Find(named, name), Stored::kInt8PerTensor);
    parts[0].name = name + ".int8_weight";
    parts[1].name = name + ".int8_scale";
    Erase(named, name);
    named.insert(named.end(), parts.begin(), parts.end());
  }
  const std::string paths[] = {
      folder.Write("a.pth", PthOf(tensors)),
      folder.Write("b.pth", PthOf(named)),
      folder.Write("c.safetensors", SafetensorsOf(ToOfficial(tensors))),
      folder.Write("d.safetensors", SafetensorsOf(ToFla(named))),
  };
  const auto first = WeightsSource::Open(paths[0]);
  ASSERT_TRUE(first.ok()) << first.status();
  for (const std::string& path : paths) {
    const auto source = WeightsSource::Open(path);
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->content_hash(), (*first)->content_hash()) << path;
    EXPECT_EQ((*source)->format("blocks.1.att.output.weight"), WeightFormat::kInt8);
  }
  Tensors other = tensors;
  Find(other, "blocks.1.att.output.weight.fp8_scale").bytes[0] ^= 1;
  const auto changed = WeightsSource::Open(folder.Write("e.pth", PthOf(other)));
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_NE((*changed)->content_hash(), (*first)->content_hash());
}

TEST(QuantisedTest, RoundingToIntegersFirstIsReported) {
  const TempFolder folder;
  Tensors tensors = UnevenModel();
  QuantiseIn(tensors, "blocks.0.att.key.weight", Stored::kFp8Integers);
  QuantiseIn(tensors, "blocks.0.att.value.weight", Stored::kFp8PerTensor);
  QuantiseIn(tensors, "blocks.1.att.key.weight", Stored::kInt8PerTensor);
  // Zeros say nothing about how they were rounded.
  TestTensor& zeros = Find(tensors, "blocks.1.att.value.weight");
  zeros.bytes.assign(zeros.bytes.size(), '\0');
  QuantiseIn(tensors, "blocks.1.att.value.weight", Stored::kFp8Integers);
  testing::internal::CaptureStderr();
  const auto source = WeightsSource::Open(folder.Write("q.pth", PthOf(tensors)));
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->integer_rounded(), 1);
  EXPECT_THAT(said, HasSubstr("1 fp8 matrices hold integers only"));
}

// Informative dictionaries do not keep a file from loading, and what they mark as simulated is
// plain.
TEST(QuantisedTest, SimulatedInt4IsLoadedAsItIs) {
  const TempFolder folder;
  const std::string path = folder.Write("q.pth", PthOf(UnevenModel(), false, "int4_group128"));
  const Model model = Open(path);
  ASSERT_NE(model.weights, nullptr);
  EXPECT_EQ(model.weights->FormatText(), "bf16");
}

}  // namespace
}  // namespace tandem
