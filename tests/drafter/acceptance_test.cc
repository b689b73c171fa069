// A drafter that is one token behind writes the right text and accepts less: after every round, the
// live drafts must be those of a slot rebuilt from the accepted text (C25), with every accepted
// token fed (C26), whatever was accepted.
#include <gtest/gtest.h>

#include <functional>

#include "tests/drafter/demo.h"

namespace tandem {
namespace {

constexpr int kTokens = 48;

// Chooses how many of the drafts a round accepts and which token follows them.
struct Verdict {
  int accepted = 0;
  int32_t next = 0;
};
using Verifier =
    std::function<Verdict(const std::vector<int32_t>& drafts, const std::vector<int32_t>& choices)>;

struct Generated {
  std::vector<int32_t> ids = {};
  std::vector<int> accepted = {};                 // by round
  std::vector<std::vector<int32_t>> drafts = {};  // by round
  std::vector<int> certain = {};                  // positions known before the round
  std::vector<float> features = {};
};

// Generates kTokens tokens after the prompt, the prompt being fed in rounds of `chunk` positions.
Generated Generate(const std::vector<int32_t>& prompt, int k, int chunk, const Verifier& verify) {
  const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(1);
  Generated text{.ids = prompt};
  BaseSequence base;
  base.Pass(prompt);
  text.ids.push_back(base.Choices().back());
  int fed = 0;
  for (; fed + chunk < static_cast<int>(prompt.size()); fed += chunk)
    DraftOne(*mtp, LaneOf(text.ids, base.features, fed, fed + chunk, 0));
  while (text.ids.size() < prompt.size() + kTokens) {
    const int certain = static_cast<int>(base.positions());
    const std::vector<int32_t> drafts =
        DraftOne(*mtp, LaneOf(text.ids, base.features, fed, certain, k));
    fed = certain;
    base.Pass({&text.ids.back(), 1}, drafts);
    const Verdict verdict = verify(drafts, base.Choices());
    base.Accept(verdict.accepted);
    text.ids.insert(text.ids.end(), drafts.begin(), drafts.begin() + verdict.accepted);
    text.ids.push_back(verdict.next);
    text.accepted.push_back(verdict.accepted);
    text.drafts.push_back(drafts);
    text.certain.push_back(certain);
  }
  text.features = base.features;
  return text;
}

// The drafts at each round of `text`, rebuilt from the finished text by a pass without drafts and a
// cold slot.
std::vector<std::vector<int32_t>> TeacherForced(const Generated& text, int k) {
  BaseSequence base;
  base.Pass({text.ids.data(), text.ids.size() - 1});
  // Features of accepted drafts are those of plain decoding, bit for bit.
  EXPECT_EQ(text.features, std::vector<float>(base.features.begin(),
                                              base.features.begin() + text.features.size()));
  const std::unique_ptr<Mtp> mtp = Demo::Get().MakeMtp(1);
  std::vector<std::vector<int32_t>> drafts;
  for (size_t round = 0; round < text.certain.size(); ++round) {
    drafts.push_back(DraftOne(*mtp, LaneOf(text.ids, base.features, 0, text.certain[round], k, 0,
                                           static_cast<uint32_t>(round))));
  }
  return drafts;
}

Verdict Greedy(const std::vector<int32_t>& drafts, const std::vector<int32_t>& choices) {
  int accepted = 0;
  while (accepted < static_cast<int>(drafts.size()) && choices[accepted] == drafts[accepted])
    ++accepted;
  return {.accepted = accepted, .next = choices[accepted]};
}

TEST(AcceptanceTest, LiveEqualsTeacherForced) {
  constexpr int kDrafts = 3;
  int accepted = 0;
  int rounds = 0;
  for (const nlohmann::json& golden : Demo::Get().golden()["cases"]) {
    SCOPED_TRACE(golden["task"].get<std::string>());
    const Generated text = Generate(golden["ids"], kDrafts, 1 << 20, Greedy);
    const std::vector<std::vector<int32_t>> forced = TeacherForced(text, kDrafts);
    EXPECT_EQ(text.drafts, forced);
    for (size_t round = 0; round < forced.size(); ++round) {
      int expected = 0;
      while (expected < kDrafts &&
             text.ids[text.certain[round] + 1 + expected] == forced[round][expected])
        ++expected;
      EXPECT_EQ(text.accepted[round], expected) << "round " << round;
      accepted += text.accepted[round];
      ++rounds;
    }
  }
  // The gate: these eight prompts give about 3 tokens per pass; one position behind, far fewer.
  EXPECT_GT(1.0 + static_cast<double>(accepted) / rounds, 2.9);
}

// Every number of accepted drafts in turn, none and all included, at every depth up to the limit.
TEST(AcceptanceTest, ScriptedPatterns) {
  const std::vector<int32_t> prompt = Demo::Get().golden()["cases"][3]["ids"];
  for (const int k : {1, 2, 3, 8}) {
    for (const bool all : {false, true}) {
      int round = 0;
      const Generated text =
          Generate(prompt, k, 1 << 20, [&](const auto& drafts, const auto& choices) {
            const int accepted = all ? k : round++ % (k + 1);
            int32_t next = choices[accepted];
            if (accepted < k && next == drafts[accepted]) next = (next + 1) % Demo::Get().vocab();
            return Verdict{.accepted = accepted, .next = next};
          });
      EXPECT_EQ(text.drafts, TeacherForced(text, k)) << "K=" << k;
    }
  }
}

// C38: however the prompt reached the drafter, the text and every draft are the same.
TEST(AcceptanceTest, PromptInChunks) {
  const std::vector<int32_t> prompt = Demo::Get().golden()["cases"][4]["ids"];
  const Generated whole = Generate(prompt, 3, 1 << 20, Greedy);
  for (const int chunk : {1, 2, 16, 65}) {
    const Generated chunked = Generate(prompt, 3, chunk, Greedy);
    EXPECT_EQ(chunked.ids, whole.ids);
    EXPECT_EQ(chunked.drafts, whole.drafts);
  }
}

}  // namespace
}  // namespace tandem
