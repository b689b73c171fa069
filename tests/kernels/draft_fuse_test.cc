#include "kernels/draft_fuse/draft_fuse.h"

#include "tests/kernels/sidecar_fixture.h"

namespace tandem {
namespace {

constexpr int kWidth = 64;
constexpr int kVocab = 10;

class DraftFuseTest : public SidecarFixture {
 protected:
  struct Norm {
    std::vector<float> weight, bias;
  };
  Norm RandomNorm() {
    return {.weight = RandomVector(kWidth, 0.2f, 1.0f), .bias = RandomVector(kWidth, 0.2f)};
  }

  // x of `rows` rows; depth 1 from `features`, else from `previous`.
  std::vector<float> Run(int rows, const std::vector<const float*>& features,
                         const std::vector<float>& previous, const std::vector<int32_t>& tokens) {
    std::vector<float> x(static_cast<size_t>(rows) * kWidth, kPoison);
    std::vector<float> scratch(static_cast<size_t>(rows) * kWidth * 5, kPoison);
    backend_->DraftFuse(
        {.rows = rows,
         .width = kWidth,
         .features = {features.empty() ? nullptr : features.data(), features.size()},
         .previous = Of(previous),
         .tokens = {tokens.data(), tokens.size()},
         .embedding = Of(embedding_),
         .depth = Of(depth_),
         .lh_weight = Of(lh_.weight),
         .lh_bias = Of(lh_.bias),
         .lf0_weight = Of(lf0_.weight),
         .lf0_bias = Of(lf0_.bias),
         .lf1_weight = Of(lf1_.weight),
         .lf1_bias = Of(lf1_.bias),
         .lhd_weight = Of(lhd_.weight),
         .lhd_bias = Of(lhd_.bias),
         .le_weight = Of(le_.weight),
         .le_bias = Of(le_.bias),
         .ln0_weight = Of(ln0_.weight),
         .ln0_bias = Of(ln0_.bias),
         .fproj = fproj_.matrix,
         .proj = proj_.matrix,
         .x = Of(x),
         .scratch = Of(scratch)});
    return x;
  }

  Doubles Expected(Doubles u, int32_t token) const {
    const Doubles e = Normed(Row(embedding_, token, kWidth), le_.weight, le_.bias);
    u.insert(u.end(), e.begin(), e.end());
    Doubles x = Multiply(proj_.values, u);
    for (int i = 0; i < kWidth; ++i) x[i] += depth_[i];
    return Normed(x, ln0_.weight, ln0_.bias);
  }

  const Norm lh_ = RandomNorm(), lf0_ = RandomNorm(), lf1_ = RandomNorm(), lhd_ = RandomNorm(),
             le_ = RandomNorm(), ln0_ = RandomNorm();
  const std::vector<float> embedding_ = RandomVector(kVocab * kWidth);
  const std::vector<float> depth_ = RandomVector(kWidth);
  const Weights fproj_ = RandomMatrix(kWidth, 3 * kWidth);
  const Weights proj_ = RandomMatrix(kWidth, 2 * kWidth);
};

TEST_F(DraftFuseTest, FirstDepthFromFeatures) {
  constexpr int kRows = 5;
  const std::vector<float> features = RandomVector(kRows * 3 * kWidth, 3.0f);
  std::vector<const float*> rows;
  // Rows lie anywhere: here in reverse.
  for (int row = kRows - 1; row >= 0; --row) rows.push_back(features.data() + row * 3 * kWidth);
  const std::vector<int32_t> tokens = {3, 0, 9, 3, 1};
  const std::vector<float> x = Run(kRows, rows, {}, tokens);
  for (int row = 0; row < kRows; ++row) {
    const Doubles f = Row(features, kRows - 1 - row, 3 * kWidth);
    Doubles joined;
    const Norm* norms[] = {&lh_, &lf0_, &lf1_};
    for (int part = 0; part < 3; ++part) {
      const Doubles normed = Normed({f.begin() + part * kWidth, f.begin() + (part + 1) * kWidth},
                                    norms[part]->weight, norms[part]->bias);
      joined.insert(joined.end(), normed.begin(), normed.end());
    }
    ExpectNear(x.data() + row * kWidth, Expected(Multiply(fproj_.values, joined), tokens[row]),
               "x");
    // Row-invariant: alone, the same bits.
    EXPECT_EQ(Run(1, {rows[row]}, {}, {tokens[row]}),
              std::vector<float>(x.begin() + row * kWidth, x.begin() + (row + 1) * kWidth));
  }
}

TEST_F(DraftFuseTest, DeeperFromOwnOutput) {
  constexpr int kRows = 3;
  const std::vector<float> previous = RandomVector(kRows * kWidth, 2.0f);
  const std::vector<int32_t> tokens = {7, 7, 2};
  const std::vector<float> x = Run(kRows, {}, previous, tokens);
  for (int row = 0; row < kRows; ++row) {
    ExpectNear(x.data() + row * kWidth,
               Expected(Normed(Row(previous, row, kWidth), lhd_.weight, lhd_.bias), tokens[row]),
               "x");
  }
}

}  // namespace
}  // namespace tandem
