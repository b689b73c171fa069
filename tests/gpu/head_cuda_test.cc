#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/head/head.h"
#include "tests/gpu/grid_values.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

constexpr int kVocab = 320;

struct HeadOutputs {
  std::vector<float> h;       // [R, C]
  std::vector<float> logits;  // [R, V]
  std::vector<float> tap;     // [T, 3 C]
};

// The head of a model on one backend; `x` [T, C] and the wanted rows come with each call.
class HeadRig final {
 public:
  HeadRig(Backend& backend, int width) : backend_(backend), width_(width) {}

  HeadOutputs Run(const std::vector<float>& x, const std::vector<int32_t>& wanted, bool tapped) {
    const size_t wide = static_cast<size_t>(width_), rows = x.size() / wide;
    const View<float> h = memory_.Out<float>(wanted.size() * wide);
    const View<float> logits = memory_.Out<float>(wanted.size() * kVocab);
    const View<float> tap = memory_.Out<float>(rows * 3 * wide);
    const View<float*> tap_rows = memory_.In(std::vector<float*>{tapped ? tap.data : nullptr});
    backend_.Head({.rows = static_cast<int>(rows),
                   .width = width_,
                   .x = memory_.In(x),
                   .ln_weight = ln_weight_,
                   .ln_bias = ln_bias_,
                   .head = head_,
                   .logit_rows = memory_.In(wanted),
                   .h = h,
                   .logits = logits,
                   .tap = {.rows = tap_rows.data, .stride = 3 * wide}});
    return {memory_.Read(h), memory_.Read(logits), memory_.Read(tap)};
  }

 private:
  Backend& backend_;
  OnDevice memory_{backend_};
  const int width_;
  Random random_{7};
  const Matrix head_ = GridMatrix(backend_, random_, kVocab, width_);
  const View<const float> ln_weight_ =
      memory_.In(random_.Vector(static_cast<size_t>(width_), 0.5f, 1.5f));
  const View<const float> ln_bias_ =
      memory_.In(random_.Vector(static_cast<size_t>(width_), -0.5f, 0.5f));
};

void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i])) continue;
    ASSERT_NEAR(actual[i], expected[i], tolerance) << i;
  }
}

class HeadCudaTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  std::unique_ptr<Backend> cuda_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(0);
};
INSTANTIATE_TEST_SUITE_P(Widths, HeadCudaTest, testing::Values(256, 2560, 4096));

TEST_P(HeadCudaTest, FollowsTheCpu) {
  const int width = GetParam();
  HeadRig cuda(*cuda_, width), cpu(*cpu_, width);
  Random random(8);
  for (const int rows : {1, 4, 9, 40}) {
    SCOPED_TRACE(rows);
    const std::vector<float> x = random.Vector(static_cast<size_t>(rows) * width, -3, 5);
    std::vector<int32_t> wanted;
    for (int t = rows % 2; t < rows; t += 3) wanted.push_back(t);
    for (const bool tapped : {true, false}) {
      const HeadOutputs actual = cuda.Run(x, wanted, tapped), expected = cpu.Run(x, wanted, tapped);
      ExpectNear(actual.h, expected.h, 2e-5f);
      ExpectNear(actual.tap, expected.tap, 2e-5f);
      // The rounding of h to bf16 may fall on the other side.
      ExpectNear(actual.logits, expected.logits, 2e-2f * std::sqrt(static_cast<float>(width)));
    }
  }
}

TEST_P(HeadCudaTest, RowsDoNotDependOnOneAnother) {
  const int width = GetParam();
  HeadRig cuda(*cuda_, width);
  Random random(9);
  const int rows = 19;
  const std::vector<float> x = random.Vector(static_cast<size_t>(rows) * width, -3, 5);
  std::vector<int32_t> all;
  for (int t = 0; t < rows; ++t) all.push_back(t);
  const HeadOutputs together = cuda.Run(x, all, true);
  for (int t = 0; t < rows; ++t) {
    SCOPED_TRACE(t);
    const HeadOutputs alone = cuda.Run(RowsOf(x, t, 1, width), {0}, true);
    EXPECT_TRUE(SameBits(alone.h, RowsOf(together.h, t, 1, width)));
    EXPECT_TRUE(SameBits(alone.logits, RowsOf(together.logits, t, 1, kVocab)));
    EXPECT_TRUE(SameBits(RowsOf(alone.tap, 0, 1, width), RowsOf(together.tap, 3 * t, 1, width)));
    EXPECT_TRUE(SameBits(alone.h, RowsOf(alone.tap, 0, 1, width)));
  }
}

}  // namespace
}  // namespace tandem
