#include "kernels/time_mix_in/time_mix_in.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "tests/kernels/kernel_fixture.h"

namespace tandem {
namespace {

constexpr int kWidth = 64;
constexpr int kSlots = 3;
// fp32 sums of 64 terms of size about one.
constexpr double kTolerance = 2e-5;

class TimeMixInTest : public testing::Test {
 protected:
  // Everything that a pass writes.
  struct Out {
    std::vector<float> r, k, v, w_low, a_low, v_low, g_low;
  };

  Out Run(const TestLanes& lanes, const std::vector<float>& x, bool first_layer = false) {
    const int rows = lanes.rows();
    const size_t plane = static_cast<size_t>(rows) * kWidth;
    std::vector<float> h = Poisoned(plane), mixed = Poisoned(6 * plane);
    Out out = {.r = Poisoned(plane),
               .k = Poisoned(plane),
               .v = Poisoned(plane),
               .w_low = Poisoned(static_cast<size_t>(rows) * w1_.rows()),
               .a_low = Poisoned(static_cast<size_t>(rows) * a1_.rows()),
               .v_low = Poisoned(static_cast<size_t>(rows) * v1_.rows()),
               .g_low = Poisoned(static_cast<size_t>(rows) * g1_.rows())};
    backend_->TimeMixIn({.rows = rows,
                         .width = kWidth,
                         .lanes = lanes.lanes(),
                         .shift = {.committed = committed_.data(),
                                   .committed_stride = kStride,
                                   .log = log_.data(),
                                   .log_stride = kLogStride},
                         .x = ViewOf(x),
                         .ln_weight = ViewOf(std::as_const(ln_weight_)),
                         .ln_bias = ViewOf(std::as_const(ln_bias_)),
                         .mix = ViewOf(std::as_const(mix_)),
                         .receptance = receptance_.packed(),
                         .key = key_.packed(),
                         .value = value_.packed(),
                         .w1 = w1_.packed(),
                         .a1 = a1_.packed(),
                         .v1 = first_layer ? Matrix{} : v1_.packed(),
                         .g1 = g1_.packed(),
                         .h = ViewOf(h),
                         .mixed = ViewOf(mixed),
                         .r = ViewOf(out.r),
                         .k = ViewOf(out.k),
                         .v = ViewOf(out.v),
                         .w_low = ViewOf(out.w_low),
                         .a_low = ViewOf(out.a_low),
                         .v_low = ViewOf(out.v_low),
                         .g_low = ViewOf(out.g_low)});
    return out;
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

  std::vector<double> Mix(const std::vector<double>& previous, const std::vector<double>& h,
                          size_t mix) const {
    std::vector<double> mixed(kWidth);
    for (size_t c = 0; c < kWidth; ++c) {
      mixed[c] = h[c] + (previous[c] - h[c]) * mix_[mix * kWidth + c];
    }
    return mixed;
  }

  // Compares row `row` of `out` with the formulas for one token.
  void ExpectRow(const Out& out, int row, const std::vector<double>& previous,
                 const std::vector<double>& h) const {
    const auto compare = [&](const std::vector<float>& actual, const TestMatrix& weight, size_t mix,
                             double (*finish)(double)) {
      const std::vector<double> expected = weight.Times(Mix(previous, h, mix));
      for (size_t n = 0; n < expected.size(); ++n) {
        EXPECT_NEAR(actual[static_cast<size_t>(row) * expected.size() + n], finish(expected[n]),
                    kTolerance);
      }
    };
    const auto same = [](double v) { return v; };
    compare(out.r, receptance_, 0, same);
    compare(out.w_low, w1_, 1, [](double v) { return std::tanh(v); });
    compare(out.k, key_, 2, same);
    compare(out.v, value_, 3, same);
    compare(out.v_low, v1_, 3, same);
    compare(out.a_low, a1_, 4, same);
    compare(out.g_low, g1_, 5, [](double v) { return 1 / (1 + std::exp(-v)); });
  }

  std::vector<float> Committed(int slot) const {
    const auto begin = committed_.begin() + slot * static_cast<std::ptrdiff_t>(kStride);
    return {begin, begin + kWidth};
  }

  static constexpr size_t kStride = kWidth + 5;
  static constexpr size_t kLogStride = kMaxDrafts * kWidth + 3;

  Random random_{3};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(2);
  TestMatrix receptance_{*backend_, random_, kWidth, kWidth};
  TestMatrix key_{*backend_, random_, kWidth, kWidth};
  TestMatrix value_{*backend_, random_, kWidth, kWidth};
  TestMatrix w1_{*backend_, random_, 8, kWidth};
  TestMatrix a1_{*backend_, random_, 5, kWidth};
  TestMatrix v1_{*backend_, random_, 3, kWidth};
  TestMatrix g1_{*backend_, random_, 16, kWidth};
  std::vector<float> ln_weight_ = random_.Vector(kWidth, 0.5f, 1.5f);
  std::vector<float> ln_bias_ = random_.Vector(kWidth, -0.5f, 0.5f);
  std::vector<float> mix_ = random_.Vector(6 * kWidth, 0.0f, 1.0f);
  std::vector<float> committed_ = random_.Vector(kSlots * kStride, -1.0f, 1.0f);
  std::vector<float> log_ = Poisoned(kSlots * kLogStride);
};

TEST_F(TimeMixInTest, RaggedLanesFollowTheFormulas) {
  const std::vector<float> committed = committed_;
  // Long enough to cross the spans in which rows are handed out.
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
  lanes.Add(2, 37, 0);
  lanes.Add(0, 1, 3);
  lanes.Add(1, 2, 8);
  const std::vector<float> x = random_.Vector(static_cast<size_t>(lanes.rows()) * kWidth, -2, 2);
  const Out out = Run(lanes, x);
  for (size_t b = 0; b < lanes.slots.size(); ++b) {
    const float* start = committed.data() + static_cast<size_t>(lanes.slots[b]) * kStride;
    std::vector<double> previous(start, start + kWidth);
    for (int row = lanes.offsets[b]; row < lanes.offsets[b + 1]; ++row) {
      SCOPED_TRACE(row);
      const std::vector<double> h = Norm(x.data() + static_cast<size_t>(row) * kWidth);
      ExpectRow(out, row, previous, h);
      previous = h;
    }
  }
}

TEST_F(TimeMixInTest, CommitsTheLastCertainRowOnly) {
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
  lanes.Add(1, 2, 4);
  const std::vector<float> x = random_.Vector(6 * kWidth, -2, 2);
  Run(lanes, x);
  const std::vector<double> certain = Norm(x.data() + kWidth);
  for (size_t c = 0; c < kWidth; ++c) EXPECT_NEAR(Committed(1)[c], certain[c], kTolerance);
}

TEST_F(TimeMixInTest, TheFirstLayerHasNoValueFactor) {
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
  lanes.Add(0, 2, 0);
  const Out out = Run(lanes, random_.Vector(2 * kWidth, -2, 2), true);
  EXPECT_THAT(out.v_low, testing::Each(testing::IsNan()));
  EXPECT_THAT(out.r, testing::Each(testing::Not(testing::IsNan())));
}

// Whatever number of drafts is kept, the next pass continues as if exactly these tokens had been
// certain.
TEST_F(TimeMixInTest, EveryAcceptedCountContinuesLikeSequentialDecoding) {
  const std::vector<float> first = random_.Vector((1 + kMaxDrafts) * kWidth, -2, 2);
  const std::vector<float> next = random_.Vector(kWidth, -2, 2);
  const std::vector<float> start = committed_;
  for (int drafts = 0; drafts <= kMaxDrafts; ++drafts) {
    for (int accepted = 0; accepted <= drafts; ++accepted) {
      SCOPED_TRACE(testing::Message() << accepted << " of " << drafts);
      committed_ = start;
      TestLanes plain = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
      plain.Add(1, 1 + accepted, 0);
      Run(plain, RowsOf(first, 0, 1 + accepted, kWidth));
      TestLanes one = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
      one.Add(1, 1, 0);
      const Out expected = Run(one, next);

      committed_ = start;
      log_ = Poisoned(log_.size());
      TestLanes verify = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
      verify.Add(1, 1, drafts);
      Run(verify, RowsOf(first, 0, 1 + drafts, kWidth));
      one.accepted[1] = accepted;
      const Out actual = Run(one, next);
      EXPECT_TRUE(SameBits(actual.r, expected.r));
      EXPECT_TRUE(SameBits(actual.g_low, expected.g_low));
    }
  }
}

// A damaged counter must not reach memory outside the slot's log.
TEST_F(TimeMixInTest, AcceptedIsClamped) {
  const std::vector<float> x = random_.Vector((1 + kMaxDrafts) * kWidth, -2, 2);
  const std::vector<float> next = random_.Vector(kWidth, -2, 2);
  const std::vector<float> start = committed_;
  const auto after = [&](int accepted) {
    committed_ = start;
    TestLanes verify = {.slots = {}, .provisional = {}, .accepted = {0, 0, 0}};
    verify.Add(1, 1, kMaxDrafts);
    Run(verify, x);
    TestLanes one = {.slots = {}, .provisional = {}, .accepted = {0, accepted, 0}};
    one.Add(1, 1, 0);
    return Run(one, next).r;
  };
  EXPECT_TRUE(SameBits(after(-1), after(0)));
  EXPECT_TRUE(SameBits(after(-1000000), after(0)));
  EXPECT_TRUE(SameBits(after(kMaxDrafts + 1), after(kMaxDrafts)));
  EXPECT_TRUE(SameBits(after(1000000), after(kMaxDrafts)));
}

TEST_F(TimeMixInTest, OtherSlotsAreNotTouched) {
  const std::vector<float> before = committed_;
  TestLanes lanes = {.slots = {}, .provisional = {}, .accepted = {2, 0, 2}};
  lanes.Add(1, 3, 2);
  Run(lanes, random_.Vector(5 * kWidth, -2, 2));
  for (size_t i = 0; i < before.size(); ++i) {
    const bool of_slot_1 = i >= kStride && i < kStride + kWidth;
    if (!of_slot_1) {
      EXPECT_EQ(committed_[i], before[i]);
    }
  }
}

}  // namespace
}  // namespace tandem
