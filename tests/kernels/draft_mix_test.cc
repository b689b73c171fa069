#include "kernels/draft_mix/draft_mix.h"

#include "tests/kernels/sidecar_fixture.h"

namespace tandem {
namespace {

class DraftMixTest : public SidecarFixture {};

TEST_F(DraftMixTest, EqualsTheFormula) {
  constexpr int kWidth = 64;
  const Weights key = RandomMatrix(4 * kWidth, kWidth);
  const Weights value = RandomMatrix(kWidth, 4 * kWidth, /*sparse_inputs=*/true);
  const std::vector<float> x_k = RandomVector(kWidth, 0.5f, 0.5f);
  for (const int rows : {1, 2, 9}) {
    const std::vector<float> before = RandomVector(rows * kWidth);
    const std::vector<float> z = RandomVector(rows * kWidth);
    const std::vector<float> shifts = RandomVector(rows * kWidth);
    std::vector<const float*> z_rows, z_prev;
    // A row's shift may be another row's z, as it is for neighbouring positions.
    for (int row = 0; row < rows; ++row) {
      z_rows.push_back(z.data() + row * kWidth);
      z_prev.push_back((row == 1 ? z.data() : shifts.data() + row * kWidth));
    }
    std::vector<float> x = before;
    std::vector<float> scratch(static_cast<size_t>(rows) * 6 * kWidth, kPoison);
    backend_->DraftMix({.rows = rows,
                        .width = kWidth,
                        .z = {z_rows.data(), z_rows.size()},
                        .z_prev = {z_prev.data(), z_prev.size()},
                        .x_k = Of(x_k),
                        .key = key.matrix,
                        .value = value.matrix,
                        .x = Of(x),
                        .scratch = Of(scratch)});
    for (int row = 0; row < rows; ++row) {
      Doubles mixed = Row(z, row, kWidth);
      for (int i = 0; i < kWidth; ++i) mixed[i] += (z_prev[row][i] - mixed[i]) * x_k[i];
      Doubles hidden = Multiply(key.values, mixed);
      for (double& h : hidden) h = h > 0 ? h * h : 0;
      Doubles expected = Multiply(value.values, hidden);
      for (int i = 0; i < kWidth; ++i) expected[i] += before[row * kWidth + i];
      ExpectNear(x.data() + row * kWidth, expected, "x");
    }
  }
}

}  // namespace
}  // namespace tandem
