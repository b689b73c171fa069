#include "kernels/draft_head/draft_head.h"

#include <gmock/gmock.h>

#include <numeric>

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
             const std::vector<float>& bias, const std::vector<int32_t>& head_rows,
             const std::vector<int32_t>& draft_vocab) {
    const size_t rows = x.size() / kWidth;
    Output out{.o = std::vector<float>(x.size(), kPoison),
               .logits = std::vector<float>(rows * head.rows, kPoison),
               .tokens = std::vector<int32_t>(rows, -7)};
    backend_->DraftHead({.rows = static_cast<int>(rows),
                         .width = kWidth,
                         .x = Of(x),
                         .lo_weight = Of(weight),
                         .lo_bias = Of(bias),
                         .head = head,
                         .head_rows = {head_rows.data(), head_rows.size()},
                         .draft_vocab = {draft_vocab.data(), draft_vocab.size()},
                         .o = Of(out.o),
                         .logits = Of(out.logits),
                         .tokens = {out.tokens.data(), out.tokens.size()}});
    return out;
  }
};

TEST_F(DraftHeadTest, RanksTheDraftVocabulary) {
  constexpr int kHeadRows = 100;
  constexpr int kChoices = 30;
  constexpr int kRows = 4;
  const Weights head = RandomMatrix(kHeadRows, kWidth);
  const std::vector<float> weight = RandomVector(kWidth, 0.2f, 1.0f);
  const std::vector<float> bias = RandomVector(kWidth, 0.2f);
  const std::vector<float> x = RandomVector(kRows * kWidth, 2.0f);
  std::vector<int32_t> head_rows, draft_vocab;
  for (int i = 0; i < kChoices; ++i) {
    head_rows.push_back((i * 37 + 11) % kHeadRows);
    draft_vocab.push_back((i * 137 + 11) % 1000);
  }
  const Output out = Run(head.matrix, x, weight, bias, head_rows, draft_vocab);
  for (int row = 0; row < kRows; ++row) {
    const Doubles o = Normed(Row(x, row, kWidth), weight, bias);
    const Doubles logits = Multiply(head.values, o);
    ExpectNear(out.o.data() + row * kWidth, o, "o");
    ExpectNear(out.logits.data() + row * kHeadRows, logits, "logits");
    const auto largest = std::max_element(head_rows.begin(), head_rows.end(),
                                          [&](int a, int b) { return logits[a] < logits[b]; }) -
                         head_rows.begin();
    EXPECT_EQ(out.tokens[row], draft_vocab[largest]);
  }
}

// Head row i is the number marks[i] in its first column, and o is 1 there: the logits are the
// marks.
TEST_F(DraftHeadTest, TieTakesTheMoreFrequentAndNanNeverWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x(kWidth, 0.0f);
  x[0] = 1.0f;
  const std::vector<float> ones(kWidth, 1.0f);
  const std::vector<float> zeros(kWidth, 0.0f);
  const auto token = [&](const std::vector<float>& marks, const std::vector<int32_t>& ids) {
    std::vector<uint16_t> bf16(marks.size() * kWidth);
    for (size_t i = 0; i < marks.size(); ++i)
      bf16[i * kWidth] = static_cast<uint16_t>(std::bit_cast<uint32_t>(marks[i]) >> 16);
    Matrix head{.rows = static_cast<int>(marks.size()), .cols = kWidth};
    void* memory = backend_->Allocate(backend_->PackedBytes(head));
    EXPECT_TRUE(backend_->Pack(memory, head, bf16.data()));
    head.data = memory;
    std::vector<int32_t> rows(marks.size());
    std::iota(rows.begin(), rows.end(), 0);
    return Run(head, x, ones, zeros, rows, ids).tokens;
  };
  EXPECT_THAT(token({nan, 1, 2, 2}, {9, 7, 5, 3}), ElementsAre(5));
  EXPECT_THAT(token({2, nan, 2}, {3, 9, 5}), ElementsAre(3));
  EXPECT_THAT(token({nan, 1}, {9, 7}), ElementsAre(7));
  // Nothing comparable: the most frequent token.
  EXPECT_THAT(token({nan, nan}, {4, 7}), ElementsAre(4));
}

}  // namespace
}  // namespace tandem
