// A draft head made of rows of the base model's head scores as those rows do.
#include "common/drafter/mtp/mtp_head.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tandem {
namespace {

constexpr int kVocab = 300;
constexpr int kWidth = 80;

class MtpHeadTest : public ::testing::Test {
 protected:
  std::vector<float> Vector(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }

  // W x.
  std::vector<float> Times(const Matrix& matrix, std::vector<float> x) {
    std::vector<float> y(matrix.rows);
    backend_->Linear({.rows = 1,
                      .weight = matrix,
                      .x = {x.data(), x.size()},
                      .x_stride = kWidth,
                      .y = {y.data(), y.size()},
                      .y_stride = y.size()});
    return y;
  }

  Matrix Place(Matrix matrix) {
    matrix.data = backend_->Allocate(backend_->PackedBytes(matrix));
    return matrix;
  }

  std::mt19937 random_{7};
  std::unique_ptr<Backend> backend_ = MakeCpuBackend(1);
};

TEST_F(MtpHeadTest, RowsKeepTheirScores) {
  std::vector<uint16_t> bf16(kVocab * kWidth);
  for (uint16_t& bits : bf16) bits = static_cast<uint16_t>(0x3c00 + random_() % 0x400);
  for (size_t i = 0; i < bf16.size(); i += 3) bf16[i] |= 0x8000;
  const Matrix head = Place({.rows = kVocab, .cols = kWidth});
  EXPECT_TRUE(backend_->Pack(const_cast<void*>(head.data), head, bf16.data()));
  std::vector<int32_t> ids = {299, 0, 7, 150, 31, 32, 33};
  const std::vector<float> x = Vector(kWidth);
  const std::vector<float> scores = Times(head, x);
  // One column at a time, a number that does not divide the width, all at once.
  for (const size_t columns : {1, 7, 80}) {
    std::vector<float> units(columns * kWidth), products(columns * kVocab);
    const Matrix rows = Place({.rows = static_cast<int>(ids.size()), .cols = kWidth});
    ASSERT_TRUE(GatherHead(backend_.get(), head, {ids.data(), ids.size()}, rows,
                           {units.data(), units.size()}, {products.data(), products.size()})
                    .ok());
    const std::vector<float> gathered = Times(rows, x);
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(gathered[i], scores[ids[i]]) << ids[i];
  }
}

}  // namespace
}  // namespace tandem
