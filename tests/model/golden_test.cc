#include <cmath>
#include <cstring>
#include <iostream>

#include "gmock/gmock.h"
#include "tests/model/model_fixture.h"

namespace tandem {
namespace {

constexpr double kLogitTolerance = 1e-3;
// The stored numbers are rounded to five digits after the point or fewer.
constexpr double kFeatureTolerance = 1e-3;
// Below this stored distance between the best two logits, another order of fp32 sums may flip the
// choice.
constexpr double kTieMargin = 2e-3;

double LogSumExp(const std::vector<float>& logits) {
  const double top = logits[static_cast<size_t>(Argmax(logits))];
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum);
}

class GoldenTest : public testing::Test {
 protected:
  static DemoModel& Model() {
    static DemoModel* const model = new DemoModel();
    return *model;
  }
};

TEST_F(GoldenTest, HasEightCases) { EXPECT_EQ(Golden()["cases"].size(), 8u); }

TEST_F(GoldenTest, EveryPositionOfThePrompts) {
  for (const auto& item : Golden()["cases"]) {
    SCOPED_TRACE(item["task"].get<std::string>());
    const Slot slot = Model().Acquire();
    const std::vector<int32_t> ids = Tokens(item["ids"]);
    const std::vector<std::vector<float>> rows = Model().Feed(slot, ids, 64);
    ASSERT_EQ(rows.size(), ids.size());
    for (size_t t = 0; t < rows.size(); ++t) {
      EXPECT_EQ(Argmax(rows[t]), item["argmax_per_position"][t].get<int>()) << "position " << t;
      EXPECT_NEAR(LogSumExp(rows[t]), item["logsumexp_per_position"][t].get<double>(),
                  kLogitTolerance)
          << "position " << t;
    }
    for (const auto& top : item["last_top20"]) {
      EXPECT_NEAR(rows.back()[top[0].get<size_t>()], top[1].get<double>(), kLogitTolerance);
    }
  }
}

TEST_F(GoldenTest, FeaturesAfterThePrompts) {
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
        EXPECT_NEAR(Model().features()[part * width + c], expected[c].get<double>(),
                    kFeatureTolerance)
            << names[part] << "[" << c << "]";
      }
    }
  }
}

struct StateSums {
  double att_shift = 0, ffn_shift = 0, wkv = 0, wkv_abs = 0;
};

// Reads the layers straight from the backend's memory, which is the host's on the CPU.
StateSums SumLayer(DemoModel& model, const Slot& slot, int layer) {
  const RecurrentState::Layer at = model.state().layer(layer);
  const size_t base = static_cast<size_t>(slot.index()) * model.state().state_stride();
  const size_t width = static_cast<size_t>(model.model().config().width);
  StateSums sums;
  for (size_t c = 0; c < width; ++c) {
    sums.att_shift += at.att_shift[base + c];
    sums.ffn_shift += at.ffn_shift[base + c];
  }
  for (size_t i = 0; i < width * kHeadSize; ++i) {
    sums.wkv += at.wkv[base + i];
    sums.wkv_abs += std::fabs(at.wkv[base + i]);
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
      EXPECT_NEAR(sums.att_shift, expected["att_shift"].get<double>(), 5e-3);
      EXPECT_NEAR(sums.ffn_shift, expected["ffn_shift"].get<double>(), 5e-3);
      // Sums of 16,384 values whose absolute values add up to wkv_abs.
      const double scale = expected["wkv_abs"].get<double>();
      EXPECT_NEAR(sums.wkv, expected["wkv"].get<double>(), 2e-5 * scale);
      EXPECT_NEAR(sums.wkv_abs, scale, 2e-5 * scale);
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
        EXPECT_LT(margin, kTieMargin) << "token " << i << ": " << token << " vs " << expected[i];
        break;
      }
      logits = Model().Run({{.slot = &slot, .certain = {token}}}).front();
    }
  }
}

}  // namespace
}  // namespace tandem
