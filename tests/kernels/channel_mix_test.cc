#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/channel_mix_value/channel_mix_value.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

constexpr int kWidth = 64;
constexpr int kFfn = 256;
constexpr size_t kLogStride = kMaxDrafts * kWidth;

class ChannelMixTest : public testing::Test {
 protected:
  std::vector<float> Key(const TestLanes& lanes, const std::vector<float>& x) {
    const size_t rows = static_cast<size_t>(lanes.rows());
    std::vector<float> h = Poisoned(rows * kWidth), mixed = Poisoned(rows * kWidth);
    std::vector<float> act = Poisoned(rows * kFfn);
    backend_->ChannelMixKey({.rows = lanes.rows(),
                             .width = kWidth,
                             .lanes = lanes.lanes(),
                             .shift = {.committed = committed_.data(),
                                       .committed_stride = kWidth,
                                       .log = log_.data(),
                                       .log_stride = kLogStride},
                             .x = ViewOf(x),
                             .ln_weight = ViewOf(std::as_const(ln_weight_)),
                             .ln_bias = ViewOf(std::as_const(ln_bias_)),
                             .mix = ViewOf(std::as_const(mix_)),
                             .key = key_.packed(),
                             .h = ViewOf(h),
                             .mixed = ViewOf(mixed),
                             .act = ViewOf(act)});
    return act;
  }

  std::vector<double> Norm(const float* x) const {
    double mean = 0, variance = 0;
    for (int c = 0; c < kWidth; ++c) mean += x[c] / kWidth;
    for (int c = 0; c < kWidth; ++c) variance += (x[c] - mean) * (x[c] - mean) / kWidth;
    std::vector<double> h(kWidth);
    for (size_t c = 0; c < kWidth; ++c) {
      h[c] = (x[c] - mean) / std::sqrt(variance + 1e-5) * ln_weight_[c] + ln_bias_[c];
    }
    return h;
  }

  Random random_{5};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
  TestMatrix key_{*backend_, random_, kFfn, kWidth};
  TestMatrix value_{*backend_, random_, kWidth, kFfn, /*sparse_inputs=*/true};
  std::vector<float> ln_weight_ = random_.Vector(kWidth, 0.5f, 1.5f);
  std::vector<float> ln_bias_ = random_.Vector(kWidth, -0.5f, 0.5f);
  std::vector<float> mix_ = random_.Vector(kWidth, 0.0f, 1.0f);
  std::vector<float> committed_ = random_.Vector(2 * kWidth, -1.0f, 1.0f);
  std::vector<float> log_ = Poisoned(2 * kLogStride);
};

TEST_F(ChannelMixTest, KeyFollowsTheFormula) {
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0}};
  lanes.Add(1, 3, 2);
  lanes.Add(0, 18, 0);
  const std::vector<float> start = committed_;
  const std::vector<float> x = random_.Vector(static_cast<size_t>(lanes.rows()) * kWidth, -2, 2);
  const std::vector<float> act = Key(lanes, x);
  for (size_t b = 0; b < 2; ++b) {
    const float* before = start.data() + lanes.slots[b] * kWidth;
    std::vector<double> previous(before, before + kWidth);
    for (int row = lanes.offsets[b]; row < lanes.offsets[b + 1]; ++row) {
      const std::vector<double> h = Norm(x.data() + static_cast<size_t>(row) * kWidth);
      std::vector<double> q(kWidth);
      for (size_t c = 0; c < kWidth; ++c) q[c] = h[c] + (previous[c] - h[c]) * mix_[c];
      const std::vector<double> product = key_.Times(q);
      for (size_t f = 0; f < kFfn; ++f) {
        const double expected = product[f] > 0 ? product[f] * product[f] : 0;
        EXPECT_NEAR(act[static_cast<size_t>(row) * kFfn + f], expected, 5e-5 * (1 + expected));
      }
      previous = h;
    }
  }
}

TEST_F(ChannelMixTest, EveryAcceptedCountContinuesLikeSequentialDecoding) {
  const std::vector<float> first = random_.Vector((1 + kMaxDrafts) * kWidth, -2, 2);
  const std::vector<float> next = random_.Vector(kWidth, -2, 2);
  const std::vector<float> start = committed_;
  for (int drafts = 0; drafts <= kMaxDrafts; ++drafts) {
    for (int accepted = 0; accepted <= drafts; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of " << drafts);
      committed_ = start;
      TestLanes plain = {.slots = {}, .provisional = {}, .accepted = {0, 0}};
      plain.Add(0, 1 + accepted, 0);
      Key(plain, RowsOf(first, 0, 1 + accepted, kWidth));
      TestLanes one = {.slots = {}, .provisional = {}, .accepted = {0, 0}};
      one.Add(0, 1, 0);
      const std::vector<float> expected = Key(one, next);

      committed_ = start;
      log_ = Poisoned(log_.size());
      TestLanes verify = {.slots = {}, .provisional = {}, .accepted = {0, 0}};
      verify.Add(0, 1, drafts);
      Key(verify, RowsOf(first, 0, 1 + drafts, kWidth));
      one.accepted[0] = accepted;
      EXPECT_TRUE(SameBits(Key(one, next), expected));
    }
  }
}

TEST_F(ChannelMixTest, ValueAddsToTheResidualAndFillsTheTap) {
  constexpr size_t kRows = 14, kTapStride = 3 * kWidth;
  const std::vector<float> before = random_.Vector(kRows * kWidth, -2, 2);
  std::vector<float> act = random_.Vector(kRows * kFfn, 0, 2);
  for (float& value : act) {
    if (random_.Int(0, 9) < 9) value = 0.0f;
  }
  std::vector<float> x = before, tap = Poisoned(kRows * kTapStride);
  float* const rows = tap.data();
  backend_->ChannelMixValue({.rows = kRows,
                             .value = value_.packed(),
                             .act = ViewOf(std::as_const(act)),
                             .x = ViewOf(x),
                             .tap = {.rows = &rows, .offset = kWidth, .stride = kTapStride}});
  for (size_t t = 0; t < kRows; ++t) {
    const std::vector<double> product =
        value_.Times({act.begin() + static_cast<std::ptrdiff_t>(t * kFfn),
                      act.begin() + static_cast<std::ptrdiff_t>((t + 1) * kFfn)});
    for (size_t c = 0; c < kWidth; ++c) {
      EXPECT_NEAR(x[t * kWidth + c], before[t * kWidth + c] + product[c], 1e-4);
      EXPECT_EQ(tap[t * kTapStride + kWidth + c], x[t * kWidth + c]);
      EXPECT_TRUE(std::isnan(tap[t * kTapStride + c]));
    }
  }
}

}  // namespace
}  // namespace tandem
