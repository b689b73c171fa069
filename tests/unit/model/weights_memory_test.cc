// What loading says when memory runs out on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/model/synthetic.h"
#include "common/model/weights.h"
#include "tests/forwarding_backend.h"
#include "tests/unit/model/file_writers.h"
#include "tests/unit/model/quantised_files.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// Has room for the packed weights, but for packing only `packs` matrices.
class NarrowBackend final : public ForwardingBackend {
 public:
  explicit NarrowBackend(int packs) : ForwardingBackend(MakeCpuBackend(1)), left_(packs) {}
  bool Pack(void* to, const Matrix& shape, const uint16_t* bf16) override {
    return left_-- > 0 && ForwardingBackend::Pack(to, shape, bf16);
  }
  bool PackCodes(void* to, const Matrix& shape, const MatrixCodes& codes) override {
    return left_-- > 0 && ForwardingBackend::PackCodes(to, shape, codes);
  }
  bool PackRandom(void* to, const Matrix& shape, const RandomFill& fill) override {
    return left_-- > 0 && ForwardingBackend::PackRandom(to, shape, fill);
  }

 private:
  int left_;
};

void ExpectNoMemory(const absl::Status& status, const std::vector<std::string>& says) {
  ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  for (const std::string& text : says) EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(WeightsMemoryTest, TheMatrixThatCannotBePackedIsNamed) {
  const TempFolder folder;
  std::vector<TestTensor> tensors = UnevenModel();
  QuantiseIn(tensors, "blocks.1.ffn.value.weight", Stored::kInt6);
  const auto source = WeightsSource::Open(folder.Write("q.pth", PthOf(tensors)));
  ASSERT_TRUE(source.ok()) << source.status();
  // A layer packs receptance, key, value, w1, a1, g1, w2, a2, g2, v1, v2 (not in layer 0), output,
  // ffn.key, ffn.value.
  const std::pair<int, const char*> cases[] = {
      {0, "blocks.0.att.receptance.weight [64, 64]"},
      {3, "blocks.0.att.w1 [8, 64]"},
      {12 + 13, "blocks.1.ffn.value.weight [64, 256]"},
      {12 + 14, "head.weight [48, 64]"},
  };
  for (const auto& [packs, name] : cases) {
    NarrowBackend backend(packs);
    const auto weights = ModelWeights::Load(&backend, **source);
    ExpectNoMemory(weights.status(),
                   {name, "MiB of cpu memory", "--weights", "--head-weights", "--max-sequences"});
  }
  NarrowBackend enough(12 + 14 + 1);
  EXPECT_TRUE(ModelWeights::Load(&enough, **source).ok());
}

TEST(WeightsMemoryTest, SyntheticModelsSayIt) {
  const auto model = SyntheticOfSize("tiny");
  ASSERT_TRUE(model.ok());
  NarrowBackend backend(2);
  ExpectNoMemory(MakeSynthetic(&backend, *model).status(), {"[256, 256]", "MiB of cpu memory"});
}

}  // namespace
}  // namespace tandem
