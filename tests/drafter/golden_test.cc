// The stored results of the demo model's sidecar, made by a plain fp32 implementation.
#include <gtest/gtest.h>

#include <iostream>
#include <numeric>

#include "tests/drafter/demo.h"

namespace tandem {
namespace {

// Whether a draft is the stored one. Where it is another, its logit may exceed the stored one's by
// what the backend's arithmetic allows; what follows in the chain is then another chain.
bool IsStored(int32_t draft, const std::vector<float>& logits, int32_t stored) {
  if (draft == stored) return true;
  const double margin = logits[static_cast<size_t>(draft)] - logits[static_cast<size_t>(stored)];
  std::cout << "draft " << draft << " instead of " << stored << " by " << margin << "\n";
  EXPECT_LT(margin, GoldenTolerances().draft_margin);
  return false;
}

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
    const std::vector<std::vector<float>> logits = demo.backend().draft_logits;
    for (int k = 0; k < 3; ++k) {
      SCOPED_TRACE(k + 1);
      const nlohmann::json& expected = golden["draft_k3_after_prompt"][k];
      for (const nlohmann::json& top : expected["top5"]) {
        EXPECT_NEAR(logits[k][top[0].get<int>()], top[1].get<float>(),
                    GoldenTolerances().draft_logits);
      }
      if (!IsStored(drafts[k], logits[k], expected["token"])) break;
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
      SCOPED_TRACE(k + 1);
      const int32_t stored = at["drafts"][k][0];
      EXPECT_NEAR(live_logits[k][stored], at["drafts"][k][1].get<float>(),
                  GoldenTolerances().draft_logits);
      if (!IsStored(live[k], live_logits[k], stored)) break;
    }
  }
}

// The text equals the stored one, at least up to a choice that was close.
void ExpectStoredText(absl::Span<const int32_t> text, const nlohmann::json& golden) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == golden["greedy_96"][i].get<int32_t>()) continue;
    EXPECT_LT(golden["greedy_margin"][i].get<double>(), GoldenTolerances().greedy_margin);
    return;
  }
}

// Greedy text with K = 3 and how many drafts each step accepted.
TEST(MtpGoldenTest, AcceptedPerStep) {
  Demo& demo = Demo::Get();
  const double allowed = GoldenTolerances().accepted;
  int all = 0, all_stored = 0;
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
    const std::vector<int> stored = golden["spec_k3_accepted_per_step"];
    all += std::accumulate(accepted_per_step.begin(), accepted_per_step.end(), 0);
    all_stored += std::accumulate(stored.begin(), stored.end(), 0);
    if (allowed == 0.0) {
      EXPECT_EQ(accepted_per_step, stored);
    }
    ExpectStoredText(absl::MakeConstSpan(ids).subspan(prompt, 96), golden);
  }
  std::cout << "accepted drafts: " << all << ", stored " << all_stored << "\n";
  EXPECT_NEAR(all, all_stored, allowed * all_stored);
}

}  // namespace
}  // namespace tandem
