#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/channel_mix_value/channel_mix_value.h"
#include "kernels/embed/embed.h"
#include "kernels/time_mix_out/time_mix_out.h"
#include "tests/gpu/grid_values.h"
#include "tests/gpu/on_device.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

constexpr int kRowCounts[] = {1, 4, 9, 70};

// Of a width.
class ResidualOpsCudaTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    cuda_ = CudaOrNull();
    if (cuda_ == nullptr) GTEST_SKIP() << "no CUDA device";
  }

  std::unique_ptr<Backend> cuda_;
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend(0);
};

TEST_P(ResidualOpsCudaTest, EmbedCopiesTheRowsOfTheTokens) {
  const int width = GetParam();
  Random random(1);
  OnDevice memory(*cuda_);
  const size_t wide = static_cast<size_t>(width);
  const std::vector<float> table = random.Vector(300 * wide, -1, 1);
  const View<const float> on_device = memory.In(table);
  for (const int rows : kRowCounts) {
    std::vector<int32_t> tokens(static_cast<size_t>(rows));
    for (int32_t& token : tokens) token = random.Int(0, 299);
    tokens.front() = 299;
    const View<float> x = memory.Out<float>(tokens.size() * wide + 8);
    cuda_->Embed({.rows = rows,
                  .width = width,
                  .tokens = memory.In(tokens),
                  .table = on_device,
                  .x = x.Sub(0, tokens.size() * wide)});
    const std::vector<float> actual = memory.Read(x);
    for (int t = 0; t < rows; ++t) {
      EXPECT_TRUE(SameBits(RowsOf(actual, t, 1, width),
                           RowsOf(table, tokens[static_cast<size_t>(t)], 1, width)));
    }
    EXPECT_THAT(RowsOf(actual, rows * width, 8, 1), testing::Each(testing::IsNan()));
  }
}

// Grid values: both backends get the exact sums.
TEST_P(ResidualOpsCudaTest, TimeMixOutAddsToTheResidual) {
  const int width = GetParam();
  const int outputs = width / 4;  // a part of the square matrix is enough
  const auto run = [&](Backend& backend, int rows) {
    Random random(2);
    OnDevice memory(backend);
    const Matrix output = GridMatrix(backend, random, outputs, width);
    const size_t count = static_cast<size_t>(rows);
    const View<const float> y = memory.In(GridValues(random, count * width));
    const View<float> x = memory.In(GridValues(random, count * outputs));
    backend.TimeMixOut({.rows = rows, .output = output, .y = y, .x = x});
    return memory.Read(x);
  };
  for (const int rows : kRowCounts) {
    EXPECT_TRUE(SameBits(run(*cuda_, rows), run(*cpu_, rows))) << width << " " << rows;
  }
}

// `live` of a thousand inputs are not zero.
TEST_P(ResidualOpsCudaTest, ChannelMixValueAddsAndTaps) {
  struct Result {
    std::vector<float> x, tap;
  };
  const int width = GetParam();
  const int hidden = 4 * width, outputs = 128;  // part of the outputs is enough
  const size_t stride = 3 * static_cast<size_t>(outputs);
  const auto run = [&](Backend& backend, int rows, int live, bool tapped) {
    Random random(3);
    OnDevice memory(backend);
    const Matrix value = GridMatrix(backend, random, outputs, hidden, true);
    const size_t count = static_cast<size_t>(rows);
    std::vector<float> act = GridValues(random, count * hidden);
    for (float& input : act) input = random.Int(0, 999) < live ? std::fabs(input) : 0.0f;
    const View<float> x = memory.In(GridValues(random, count * outputs));
    const View<float> tap = memory.Out<float>(count * stride);
    const View<float*> tap_rows = memory.In(std::vector<float*>{tapped ? tap.data : nullptr});
    backend.ChannelMixValue({.rows = rows,
                             .value = value,
                             .act = memory.In(act),
                             .x = x,
                             .tap = {.rows = tap_rows.data, .stride = stride}});
    return Result{memory.Read(x), memory.Read(tap)};
  };
  for (const int rows : kRowCounts) {
    for (const int live : {0, 100, 1000}) {
      SCOPED_TRACE(testing::Message() << width << " wide, " << rows << " rows, live " << live);
      const Result actual = run(*cuda_, rows, live, true);
      EXPECT_TRUE(SameBits(actual.x, run(*cpu_, rows, live, false).x));
      for (int t = 0; t < rows; ++t) {
        EXPECT_TRUE(
            SameBits(RowsOf(actual.tap, 3 * t, 1, outputs), RowsOf(actual.x, t, 1, outputs)));
        EXPECT_THAT(RowsOf(actual.tap, 3 * t + 1, 2, outputs), testing::Each(testing::IsNan()));
      }
      EXPECT_THAT(run(*cuda_, rows, live, false).tap, testing::Each(testing::IsNan()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, ResidualOpsCudaTest, testing::Values(256, 2560, 4096),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace tandem
