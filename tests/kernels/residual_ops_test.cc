#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/embed/embed.h"
#include "kernels/head/head.h"
#include "kernels/time_mix_out/time_mix_out.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

constexpr int kWidth = 64;

TEST(EmbedTest, CopiesTheRowsOfTheTokens) {
  Random random(1);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  const std::vector<float> table = random.Vector(10 * kWidth, -1, 1);
  const std::vector<int32_t> tokens = {9, 0, 3, 3};
  std::vector<float> x = Poisoned(tokens.size() * kWidth);
  backend->Embed({.rows = 4,
                  .width = kWidth,
                  .tokens = ViewOf(tokens),
                  .table = ViewOf(table),
                  .x = ViewOf(x)});
  for (size_t t = 0; t < tokens.size(); ++t) {
    for (size_t c = 0; c < kWidth; ++c) {
      EXPECT_EQ(x[t * kWidth + c], table[static_cast<size_t>(tokens[t]) * kWidth + c]);
    }
  }
}

TEST(TimeMixOutTest, AddsToTheResidual) {
  Random random(2);
  const std::unique_ptr<Backend> backend = MakeCpuBackend(2);
  const TestMatrix output(*backend, random, kWidth, kWidth);
  const std::vector<float> y = random.Vector(5 * kWidth, -1, 1),
                           before = random.Vector(5 * kWidth, -1, 1);
  std::vector<float> x = before;
  backend->TimeMixOut({.rows = 5, .output = output.packed(), .y = ViewOf(y), .x = ViewOf(x)});
  for (size_t t = 0; t < 5; ++t) {
    const std::vector<float> row = RowsOf(y, static_cast<int>(t), 1, kWidth);
    const std::vector<double> product = output.Times({row.begin(), row.end()});
    for (size_t c = 0; c < kWidth; ++c) {
      EXPECT_NEAR(x[t * kWidth + c], before[t * kWidth + c] + product[c], 2e-5);
    }
  }
}

class HeadTest : public testing::Test {
 protected:
  std::vector<double> Norm(size_t row) const {
    const float* x = x_.data() + row * kWidth;
    double mean = 0, variance = 0;
    for (int c = 0; c < kWidth; ++c) mean += x[c] / kWidth;
    for (int c = 0; c < kWidth; ++c) variance += (x[c] - mean) * (x[c] - mean) / kWidth;
    std::vector<double> h(kWidth);
    for (size_t c = 0; c < kWidth; ++c) {
      h[c] = (x[c] - mean) / std::sqrt(variance + 1e-5) * ln_weight_[c] + ln_bias_[c];
    }
    return h;
  }

  // Logits of the wanted rows; fills tap_ when `tapped`.
  std::vector<float> Run(const std::vector<int32_t>& wanted, bool tapped) {
    std::vector<float> h = Poisoned(wanted.size() * kWidth),
                       logits = Poisoned(wanted.size() * kVocab);
    tap_ = Poisoned(kRows * kTapStride);
    float* const tap = tapped ? tap_.data() : nullptr;
    backend_->Head({.rows = kRows,
                    .width = kWidth,
                    .x = ViewOf(std::as_const(x_)),
                    .ln_weight = ViewOf(std::as_const(ln_weight_)),
                    .ln_bias = ViewOf(std::as_const(ln_bias_)),
                    .head = head_.packed(),
                    .logit_rows = ViewOf(wanted),
                    .h = ViewOf(h),
                    .logits = ViewOf(logits),
                    .tap = {.rows = &tap, .stride = kTapStride}});
    return logits;
  }

  static constexpr size_t kRows = 20, kVocab = 101, kTapStride = 3 * kWidth;
  Random random_{4};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
  TestMatrix head_{*backend_, random_, kVocab, kWidth};
  std::vector<float> x_ = random_.Vector(kRows * kWidth, -2, 2);
  std::vector<float> ln_weight_ = random_.Vector(kWidth, 0.5f, 1.5f);
  std::vector<float> ln_bias_ = random_.Vector(kWidth, -0.5f, 0.5f);
  std::vector<float> tap_;
};

TEST_F(HeadTest, LogitsOfTheWantedRows) {
  const std::vector<int32_t> wanted = {0, 7, 19};
  const std::vector<float> logits = Run(wanted, false);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> expected = head_.Times(Norm(static_cast<size_t>(wanted[i])));
    for (size_t n = 0; n < kVocab; ++n) EXPECT_NEAR(logits[i * kVocab + n], expected[n], 5e-5);
  }
}

TEST_F(HeadTest, TheTapHoldsEveryRow) {
  EXPECT_TRUE(Run({}, true).empty());
  for (size_t t = 0; t < kRows; ++t) {
    const std::vector<double> expected = Norm(t);
    for (size_t c = 0; c < kTapStride; ++c) {
      if (c < kWidth) {
        EXPECT_NEAR(tap_[t * kTapStride + c], expected[c], 1e-5);
      } else {
        EXPECT_TRUE(std::isnan(tap_[t * kTapStride + c]));
      }
    }
  }
}

}  // namespace
}  // namespace tandem
