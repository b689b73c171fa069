#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "common/drafter/mtp/mtp_file.h"
#include "common/model/pth/pickle.h"
#include "common/model/pth/pth_reader.h"
#include "common/model/safetensors/safetensors_reader.h"
#include "common/model/weights.h"
#include "tests/unit/model/mtp_files.h"
#include "tests/unit/model/mutator.h"
#include "tests/unit/model/quantised_files.h"

namespace tandem {
namespace {

using Reader = std::function<absl::Status(const std::string& bytes)>;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Every tensor that a reader accepts has exactly the bytes of its shape, and they can be read.
absl::Status ExpectTensorsInside(const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    const auto count = ElementCount(tensor.shape, tensor.dtype);
    EXPECT_TRUE(count.ok()) << count.status();
    EXPECT_EQ(tensor.bytes.size(), static_cast<size_t>(*count) * DTypeSize(tensor.dtype));
    // A copy reads every byte, which the sanitizers watch.
    const std::vector<uint8_t> copy(tensor.bytes.begin(), tensor.bytes.end());
    EXPECT_EQ(copy.size(), tensor.bytes.size());
  }
  return absl::OkStatus();
}

absl::Status ReadPthBytes(const std::string& bytes) {
  const auto contents = ReadPth(Bytes(bytes), "fuzz.pth");
  return contents.ok() ? ExpectTensorsInside(contents->tensors) : contents.status();
}

absl::Status ReadSafetensorsBytes(const std::string& bytes) {
  const auto contents = ReadSafetensors(Bytes(bytes), "fuzz.safetensors");
  return contents.ok() ? ExpectTensorsInside(contents->tensors) : contents.status();
}

absl::Status ReadPickleBytes(const std::string& bytes) {
  return ReadPickle(Bytes(bytes), "fuzz.pth").status();
}

// Runs `reader` on damaged copies of `seed` for `milliseconds`, at least 500 copies. Nothing may
// crash (the sanitizers of the build watch), every refusal is INVALID_ARGUMENT, and most copies are
// refused.
void Fuzz(const std::string& seed, int milliseconds, const Reader& reader) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  ASSERT_TRUE(reader(seed).ok()) << reader(seed);
  Mutator mutator(20240607);
  int refused = 0;
  int runs = 0;
  for (; runs < 500 || std::chrono::steady_clock::now() < end; ++runs) {
    const absl::Status status = reader(mutator.Mutate(seed));
    if (status.ok()) continue;
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ++refused;
  }
  EXPECT_GT(refused, runs / 4) << "the mutations hardly reach the reader";
}

std::vector<TestTensor> SmallTensors() {
  return {MakeTensor("emb.weight", {3, 4}, DType::kFp32), MakeTensor("a", {1, 1, 4}, DType::kBf16),
          MakeTensor("b", {2, 2}, DType::kFp16), MakeTensor("c", {5}, DType::kFp8E4m3)};
}

TEST(FuzzTest, Pickle) {
  Fuzz(PickleOf({{.name = "emb.weight", .count = 4, .shape = {2, 2}, .stride = {}, .dtype = ""},
                 {.name = "w", .count = 4, .shape = {4}, .stride = {}, .dtype = "float8_e4m3fn"}}),
       2000, ReadPickleBytes);
}

TEST(FuzzTest, PthArchive) { Fuzz(PthOf(SmallTensors()), 2000, ReadPthBytes); }

TEST(FuzzTest, Zip64PthArchive) { Fuzz(PthOf(SmallTensors(), /*zip64=*/true), 2000, ReadPthBytes); }

TEST(FuzzTest, SafetensorsFile) { Fuzz(SafetensorsOf(SmallTensors()), 2000, ReadSafetensorsBytes); }

// The whole way from the file to a checked model.
TEST(FuzzTest, ModelFile) {
  const TempFolder folder;
  const std::string seed = PthOf(TinyModel(DType::kBf16, {.layers = 1, .vocab = 2}));
  Fuzz(seed, 1500, [&](const std::string& bytes) {
    return WeightsSource::Open(folder.Write("tiny.pth", bytes)).status();
  });
}

// The same with a matrix of every format; what passes can be packed.
TEST(FuzzTest, QuantisedModelFile) {
  const TempFolder folder;
  std::vector<TestTensor> tensors = UnevenModel({.layers = 1, .vocab = 2});
  QuantiseIn(tensors, "blocks.0.att.key.weight", Stored::kFp8);
  QuantiseIn(tensors, "blocks.0.att.value.weight", Stored::kInt8PerTensor);
  QuantiseIn(tensors, "blocks.0.ffn.key.weight", Stored::kInt8Weight);
  QuantiseIn(tensors, "blocks.0.ffn.value.weight", Stored::kInt6);
  const std::string seed = PthOf(tensors, false, "fp8_perchannel");
  Fuzz(seed, 1500, [&](const std::string& bytes) {
    const auto source = WeightsSource::Open(folder.Write("tiny.pth", bytes));
    if (!source.ok()) return source.status();
    const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
    return ModelWeights::Load(backend.get(), **source).status();
  });
}

TEST(FuzzTest, SidecarMeta) {
  const TempFolder folder;
  TinySidecar sidecar = MakeTinySidecar();
  WriteSidecar(folder, sidecar);
  const std::string seed = nlohmann::json({{"meta", sidecar.meta}}).dump();
  Fuzz(seed, 1000, [&](const std::string& bytes) {
    const std::string path = folder.Write("mtp.json", bytes);
    return ReadMtpConfig(path).status();
  });
}

}  // namespace
}  // namespace tandem
