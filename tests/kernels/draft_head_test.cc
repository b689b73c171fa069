#include "kernels/draft_head/draft_head.h"

#include <gmock/gmock.h>

#include "tests/kernels/sidecar_fixture.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

constexpr int kWidth = 64;

class DraftHeadTest : public SidecarFixture {
 protected:
  struct Output {
    std::vector<float> o, logits;
    std::vector<int32_t> tokens;
  };
  Output Run(const Matrix& head, const std::vector<float>& x, const std::vector<float>& weight,
             const std::vector<float>& bias, const std::vector<int32_t>& draft_vocab) {
    const size_t rows = x.size() / kWidth;
    Output out{.o = std::vector<float>(x.size(), kPoison),
               .logits = std::vector<float>(rows * head.rows, kPoison),
               .tokens = std::vector<int32_t>(rows, -7)};
    backend_->DraftHead({.rows = static_cast<int>(rows),
                         .width = kWidth,
                         .vocab = head.rows,
                         .x = Of(x),
                         .lo_weight = Of(weight),
                         .lo_bias = Of(bias),
                         .head = head,
                         .draft_vocab = {draft_vocab.data(), draft_vocab.size()},
                         .o = Of(out.o),
                         .logits = Of(out.logits),
                         .tokens = {out.tokens.data(), out.tokens.size()}});
    return out;
  }
};

TEST_F(DraftHeadTest, RanksTheDraftVocabularyOnly) {
  constexpr int kVocab = 100;
  constexpr int kRows = 4;
  const Weights head = RandomMatrix(kVocab, kWidth);
  const std::vector<float> weight = RandomVector(kWidth, 0.2f, 1.0f);
  const std::vector<float> bias = RandomVector(kWidth, 0.2f);
  const std::vector<float> x = RandomVector(kRows * kWidth, 2.0f);
  std::vector<int32_t> draft_vocab;
  for (int i = 0; i < 30; ++i) draft_vocab.push_back((i * 37 + 11) % kVocab);
  const Output out = Run(head.matrix, x, weight, bias, draft_vocab);
  for (int row = 0; row < kRows; ++row) {
    const Doubles o = Normed(Row(x, row, kWidth), weight, bias);
    const Doubles logits = Multiply(head.values, o);
    ExpectNear(out.o.data() + row * kWidth, o, "o");
    ExpectNear(out.logits.data() + row * kVocab, logits, "logits");
    EXPECT_EQ(out.tokens[row],
              *std::max_element(draft_vocab.begin(), draft_vocab.end(),
                                [&](int a, int b) { return logits[a] < logits[b]; }));
  }
}

// Head row id = the number marks[id] in every column but few: equal marks give equal logits.
TEST_F(DraftHeadTest, TieTakesTheMoreFrequentAndNanNeverWins) {
  constexpr int kVocab = 16;
  std::vector<uint16_t> bf16(kVocab * kWidth);
  const auto mark = [&](int id, float value) {
    bf16[id * kWidth] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
  };
  mark(3, 2.0f);
  mark(5, 2.0f);
  mark(7, 1.0f);
  mark(9, std::numeric_limits<float>::quiet_NaN());
  Matrix head{.rows = kVocab, .cols = kWidth};
  void* memory = backend_->Allocate(backend_->PackedBytes(head));
  backend_->Pack(memory, head, bf16.data());
  head.data = memory;
  std::vector<float> x(kWidth, 0.0f);
  x[0] = 1.0f;
  const std::vector<float> ones(kWidth, 1.0f);
  const std::vector<float> zeros(kWidth, 0.0f);
  EXPECT_THAT(Run(head, x, ones, zeros, {9, 7, 5, 3}).tokens, ElementsAre(5));
  EXPECT_THAT(Run(head, x, ones, zeros, {3, 9, 5}).tokens, ElementsAre(3));
  EXPECT_THAT(Run(head, x, ones, zeros, {9, 7}).tokens, ElementsAre(7));
  // Nothing comparable: the most frequent token.
  x[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Run(head, x, ones, zeros, {4, 7}).tokens, ElementsAre(4));
}

}  // namespace
}  // namespace tandem
