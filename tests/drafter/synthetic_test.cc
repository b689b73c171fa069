#include "common/model/synthetic.h"

#include <cmath>
#include <memory>
#include <vector>

#include "common/drafter/mtp/mtp.h"
#include "common/drafter/mtp/mtp_synthetic.h"
#include "gtest/gtest.h"
#include "kernels/linear/linear.h"
#include "kernels/random/random.h"
#include "tests/test_backend.h"

namespace tandem {
namespace {

std::vector<float> Read(Backend& backend, View<const float> view) {
  std::vector<float> values(view.size);
  backend.CopyOut(values.data(), view.data, values.size() * sizeof(float));
  backend.Wait();
  return values;
}

// The rows that channel mixing sees: normalised noise and the norm's bias.
TEST(SyntheticMtpTest, TheWantedShareOfActivationsIsZero) {
  constexpr int kRows = 50;
  const std::unique_ptr<Backend> backend = MakeTestBackend(1);
  const ModelConfig base = SyntheticOfSize("tiny").value().config;
  const size_t c = static_cast<size_t>(base.width);
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8}) {
    const MtpWeights weights =
        MakeSyntheticMtp(backend.get(), {.base = base, .format = format}).value();
    const std::vector<float> bias = Read(*backend, weights.ln2.bias);
    std::vector<float> rows(kRows * c);
    FillRandomCpu(rows.data(), rows.size(), {.seed = 5});
    for (size_t r = 0; r < kRows; ++r) {
      float mean = 0.0f;
      for (size_t i = 0; i < c; ++i) mean += rows[r * c + i] / static_cast<float>(c);
      for (size_t i = 0; i < c; ++i) rows[r * c + i] += bias[i] - mean;
    }
    const size_t f = 4 * c;
    View<float> x = {static_cast<float*>(backend->Allocate(rows.size() * sizeof(float))),
                     rows.size()};
    View<float> y = {static_cast<float*>(backend->Allocate(kRows * f * sizeof(float))), kRows * f};
    backend->CopyIn(x.data, rows.data(), rows.size() * sizeof(float));
    backend->Linear({.rows = kRows,
                     .weight = weights.ffn_key,
                     .x = x,
                     .x_stride = c,
                     .y = y,
                     .y_stride = f,
                     .epilogue = Epilogue::kReluSquare});
    double zeros = 0;
    for (const float value : Read(*backend, y)) zeros += value == 0.0f;
    EXPECT_NEAR(zeros / (kRows * static_cast<double>(f)), 0.85, 0.02);
  }
}

TEST(SyntheticMtpTest, DraftsEntriesOfItsVocabulary) {
  const std::unique_ptr<Backend> backend = MakeTestBackend(1);
  const SyntheticModel model = SyntheticOfSize("tiny").value();
  const std::unique_ptr<ModelWeights> base = MakeSynthetic(backend.get(), model).value();
  MtpWeights weights =
      MakeSyntheticMtp(backend.get(), {.base = model.config, .format = WeightFormat::kFp8}).value();
  EXPECT_EQ(weights.draft_vocab.size, static_cast<size_t>(model.config.vocab) / 4);
  const std::unique_ptr<Mtp> mtp = Mtp::Create(backend.get(), weights,
                                               {.vocab = model.config.vocab,
                                                .embedding = base->embedding(),
                                                .head = base->head(),
                                                .slots = 1,
                                                .max_lanes = 1})
                                       .value();
  constexpr int kWanted = 3;
  const size_t width = static_cast<size_t>(model.config.width);
  auto* const features = static_cast<float*>(backend->Allocate(3 * width * sizeof(float)));
  std::vector<Drafts> rounds;
  for (uint64_t round = 0; round < 40; ++round) {
    backend->FillRandom(features, 3 * width, {.seed = round});
    const int32_t next = static_cast<int32_t>(round);
    const DraftLane lane = {.slot = 0,
                            .generation = 1,
                            .count = 1,
                            .wanted = kWanted,
                            .position = static_cast<int64_t>(round),
                            .features = features,
                            .next_tokens = &next};
    Drafts drafts;
    mtp->Draft({&lane, 1}, {&drafts, 1});
    ASSERT_EQ(drafts.count, kWanted);
    for (int k = 0; k < kWanted; ++k) EXPECT_EQ(drafts.tokens[k] % 4, 0);
    rounds.push_back(drafts);
  }
  int changes = 0;
  for (size_t i = 1; i < rounds.size(); ++i)
    changes += rounds[i].tokens[0] != rounds[i - 1].tokens[0];
  EXPECT_GT(changes, 30);
}

}  // namespace
}  // namespace tandem
