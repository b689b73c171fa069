#include <algorithm>
#include <cmath>
#include <iostream>

#include "gmock/gmock.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

double LogSumExp(const std::vector<float>& logits) {
  const double top = logits[static_cast<size_t>(Argmax(logits))];
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

// Says how far the largest of many distances was, whatever the tolerance is.
class Largest final {
 public:
  explicit Largest(const char* what) : what_(what) {}
  ~Largest() { std::cout << "largest distance of " << what_ << ": " << largest_ << "\n"; }

  double Of(double actual, double expected) {
    largest_ = std::max(largest_, std::fabs(actual - expected));
    return actual;
  }

 private:
  const char* what_;
  double largest_ = 0.0;
};

class GoldenTest : public testing::Test {
 protected:
  const Tolerances allowed_ = GoldenTolerances();

  static DemoModel& Model() {
    static DemoModel* const model = new DemoModel();
    return *model;
  }
};

TEST_F(GoldenTest, HasEightCases) { EXPECT_EQ(Golden()["cases"].size(), 8u); }

TEST_F(GoldenTest, EveryPositionOfThePrompts) {
  Largest sums("a log of a sum"), logits("a logit");
  for (const auto& item : Golden()["cases"]) {
    SCOPED_TRACE(item["task"].get<std::string>());
    const Slot slot = Model().Acquire();
    const std::vector<int32_t> ids = Tokens(item["ids"]);
    const std::vector<std::vector<float>> rows = Model().Feed(slot, ids, 64);
    ASSERT_EQ(rows.size(), ids.size());
    for (size_t t = 0; t < rows.size(); ++t) {
      const float best = rows[t][static_cast<size_t>(Argmax(rows[t]))];
      const float stored = rows[t][item["argmax_per_position"][t].get<size_t>()];
      EXPECT_LE(best - stored, allowed_.choice_margin) << "position " << t;
      const double expected = item["logsumexp_per_position"][t].get<double>();
      EXPECT_NEAR(sums.Of(LogSumExp(rows[t]), expected), expected, allowed_.logits)
          << "position " << t;
    }
    for (const auto& top : item["last_top20"]) {
      const double expected = top[1].get<double>();
      EXPECT_NEAR(logits.Of(rows.back()[top[0].get<size_t>()], expected), expected,
                  allowed_.logits);
    }
  }
}

TEST_F(GoldenTest, FeaturesAfterThePrompts) {
  Largest features("a feature");
  const size_t width = static_cast<size_t>(Model().model().config().width);
  for (const auto& item : Golden()["cases"]) {
    SCOPED_TRACE(item["task"].get<std::string>());
    const Slot slot = Model().Acquire();
    const std::vector<int32_t> ids = Tokens(item["ids"]);
    Model().Prefill(slot, {ids.data(), ids.size() - 1}, 64);
    Model().Run({{.slot = &slot, .certain = {ids.back()}}});
    const char* const names[] = {"h", "m1", "m2"};
    for (size_t part = 0; part < 3; ++part) {
      const auto& expected = item["hidden_last"][names[part]];
      for (size_t c = 0; c < expected.size(); ++c) {
        const double stored = expected[c].get<double>();
        EXPECT_NEAR(features.Of(Model().features()[part * width + c], stored), stored,
                    allowed_.features)
            << names[part] << "[" << c << "]";
      }
    }
  }
}

struct StateSums {
  double att_shift = 0, ffn_shift = 0, wkv = 0, wkv_abs = 0;
};

// Reads the layers from the backend's memory.
StateSums SumLayer(DemoModel& model, const Slot& slot, int layer) {
  const RecurrentState::Layer at = model.state().layer(layer);
  const size_t base = static_cast<size_t>(slot.index()) * model.state().state_stride();
  const size_t width = static_cast<size_t>(model.model().config().width);
  std::vector<float> att_shift(width), ffn_shift(width), wkv(width * kHeadSize);
  model.backend().CopyOut(att_shift.data(), at.att_shift + base, width * sizeof(float));
  model.backend().CopyOut(ffn_shift.data(), at.ffn_shift + base, width * sizeof(float));
  model.backend().CopyOut(wkv.data(), at.wkv + base, wkv.size() * sizeof(float));
  model.backend().Wait();
  StateSums sums;
  for (const float value : att_shift) sums.att_shift += value;
  for (const float value : ffn_shift) sums.ffn_shift += value;
  for (const float value : wkv) {
    sums.wkv += value;
    sums.wkv_abs += std::fabs(value);
  }
  return sums;
}

TEST_F(GoldenTest, StatesAfterThePrompts) {
  for (const auto& item : Golden()["cases"]) {
    SCOPED_TRACE(item["task"].get<std::string>());
    const Slot slot = Model().Acquire();
    Model().Prefill(slot, Tokens(item["ids"]), 64);
    for (size_t layer = 0; layer < item["state_sums"].size(); ++layer) {
      SCOPED_TRACE(layer);
      const auto& expected = item["state_sums"][layer];
      const StateSums sums = SumLayer(Model(), slot, static_cast<int>(layer));
      EXPECT_NEAR(sums.att_shift, expected["att_shift"].get<double>(), allowed_.shift_sum);
      EXPECT_NEAR(sums.ffn_shift, expected["ffn_shift"].get<double>(), allowed_.shift_sum);
      // Sums of 16,384 values whose absolute values add up to wkv_abs.
      const double scale = expected["wkv_abs"].get<double>();
      EXPECT_NEAR(sums.wkv, expected["wkv"].get<double>(), allowed_.wkv_sum * scale);
      EXPECT_NEAR(sums.wkv_abs, scale, allowed_.wkv_sum * scale);
    }
  }
}

TEST_F(GoldenTest, GreedyContinuations) {
  for (const auto& item : Golden()["cases"]) {
    SCOPED_TRACE(item["task"].get<std::string>());
    const Slot slot = Model().Acquire();
    std::vector<float> logits = Model().Prefill(slot, Tokens(item["ids"]), 64);
    const std::vector<int32_t> expected = Tokens(item["greedy_96"]);
    for (size_t i = 0; i < expected.size(); ++i) {
      const int32_t token = Argmax(logits);
      if (token != expected[i]) {
        const double margin = item["greedy_margin"][i].get<double>();
        std::cout << "tie flipped: " << item["task"] << " token " << i << " is " << token
                  << ", stored " << expected[i] << " with margin " << margin << "\n";
        EXPECT_LT(margin, allowed_.greedy_margin)
            << "token " << i << ": " << token << " vs " << expected[i];
        break;
      }
      logits = Model().Run({{.slot = &slot, .certain = {token}}}).front();
    }
  }
}

}  // namespace
}  // namespace tandem
