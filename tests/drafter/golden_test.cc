// The stored results of the demo model's sidecar, made by a plain fp32 implementation.
#include <gtest/gtest.h>

#include "tests/drafter/demo.h"

namespace tandem {
namespace {

constexpr float kTolerance = 2e-4f;

TEST(MtpGoldenTest, DraftsAfterThePrompt) {
  Demo& demo = Demo::Get();
  for (const nlohmann::json& golden : demo.golden()["cases"]) {
    SCOPED_TRACE(golden["task"].get<std::string>());
    std::vector<int32_t> ids = golden["ids"];
    const int prompt = static_cast<int>(ids.size());
    BaseSequence base;
    base.Pass(ids);
    ids.push_back(golden["greedy_96"][0]);
    const std::unique_ptr<Mtp> mtp = demo.MakeMtp(1);
    demo.backend().draft_logits.clear();
    const std::vector<int32_t> drafts = DraftOne(*mtp, LaneOf(ids, base.features, 0, prompt, 3));
    ASSERT_EQ(drafts.size(), 3u);
    for (int k = 0; k < 3; ++k) {
      const nlohmann::json& expected = golden["draft_k3_after_prompt"][k];
      EXPECT_EQ(drafts[k], expected["token"].get<int>()) << "depth " << k + 1;
      for (const nlohmann::json& top : expected["top5"]) {
        EXPECT_NEAR(demo.backend().draft_logits[k][top[0].get<int>()], top[1].get<float>(),
                    kTolerance)
            << "depth " << k + 1;
      }
    }
  }
}

// One long text, cut into rounds of any size, or whole into a cold slot at each position.
TEST(MtpGoldenTest, RingCase) {
  Demo& demo = Demo::Get();
  const nlohmann::json& golden = demo.golden()["ring_case"];
  const std::vector<int32_t> ids = golden["ids"];
  BaseSequence base;
  base.Pass(ids);
  const std::unique_ptr<Mtp> mtp = demo.MakeMtp(2);
  int fed = 0;
  for (const nlohmann::json& at : golden["drafts_at"]) {
    const int end = at["position"].get<int>() + 1;
    SCOPED_TRACE(end - 1);
    demo.backend().draft_logits.clear();
    const std::vector<int32_t> live = DraftOne(*mtp, LaneOf(ids, base.features, fed, end, 3, 0));
    const std::vector<std::vector<float>> live_logits = demo.backend().draft_logits;
    demo.backend().draft_logits.clear();
    const std::vector<int32_t> whole =
        DraftOne(*mtp, LaneOf(ids, base.features, 0, end, 3, 1, /*generation=*/end));
    fed = end;
    ASSERT_EQ(live.size(), 3u);
    EXPECT_EQ(whole, live);
    EXPECT_EQ(demo.backend().draft_logits, live_logits);
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(live[k], at["drafts"][k][0].get<int>()) << "depth " << k + 1;
      EXPECT_NEAR(live_logits[k][live[k]], at["drafts"][k][1].get<float>(), kTolerance)
          << "depth " << k + 1;
    }
  }
}

// Greedy text with K = 3 and how many drafts each step accepted.
TEST(MtpGoldenTest, AcceptedPerStep) {
  Demo& demo = Demo::Get();
  for (const nlohmann::json& golden : demo.golden()["cases"]) {
    SCOPED_TRACE(golden["task"].get<std::string>());
    std::vector<int32_t> ids = golden["ids"];
    const size_t prompt = ids.size();
    BaseSequence base;
    base.Pass(ids);
    ids.push_back(base.Choices().back());
    const std::unique_ptr<Mtp> mtp = demo.MakeMtp(1);
    std::vector<int> accepted_per_step;
    int fed = 0;
    while (ids.size() < prompt + 96) {
      const int certain = static_cast<int>(base.positions());
      const std::vector<int32_t> drafts =
          DraftOne(*mtp, LaneOf(ids, base.features, fed, certain, 3));
      fed = certain;
      base.Pass({&ids.back(), 1}, drafts);
      const std::vector<int32_t> choices = base.Choices();
      int accepted = 0;
      while (accepted < 3 && choices[accepted] == drafts[accepted]) ++accepted;
      base.Accept(accepted);
      ids.insert(ids.end(), choices.begin(), choices.begin() + accepted + 1);
      accepted_per_step.push_back(accepted);
    }
    EXPECT_EQ(accepted_per_step, golden["spec_k3_accepted_per_step"].get<std::vector<int>>());
    ids.resize(prompt + 96);
    EXPECT_EQ(std::vector<int32_t>(ids.begin() + prompt, ids.end()),
              golden["greedy_96"].get<std::vector<int32_t>>());
  }
}

}  // namespace
}  // namespace tandem
