#include "common/model/synthetic_arena.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/model/no_memory.h"

namespace tandem {
namespace {

constexpr size_t kAlignment = 256;

// The standard normal distribution's quantile, within +-8.
double NormalQuantile(double share) {
  double low = -8.0, high = 8.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2.0;
    (0.5 * std::erfc(-middle / std::sqrt(2.0)) < share ? low : high) = middle;
  }
  return low;
}

}  // namespace

Spread ChannelMixKeySpread(int width, double zero_share) {
  CHECK(zero_share >= 0.0 && zero_share < 1.0) << zero_share;
  const double deviation = std::sqrt(1.0 + kSyntheticMixBias * kSyntheticMixBias);
  return {.scale = 1.0 / std::sqrt(width),
          .mean = -NormalQuantile(zero_share) * deviation / (kSyntheticMixBias * width)};
}

RandomFill FillOfTensor(uint64_t seed, uint64_t tensor, Spread spread) {
  return {.seed = seed << 32 | tensor,
          .scale = static_cast<float>(spread.scale),
          .mean = static_cast<float>(spread.mean)};
}

void* SyntheticArena::Take(size_t bytes) {
  uint8_t* const at = memory_ == nullptr ? nullptr : memory_ + used_;
  used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

View<const float> SyntheticArena::Vector(size_t count, Spread spread) {
  auto* const to = static_cast<float*>(Take(count * sizeof(float)));
  const RandomFill fill = FillOfTensor(seed_, ++tensors_, spread);
  if (to == nullptr) return {};
  backend_->FillRandom(to, count, fill);
  return {to, count};
}

Matrix SyntheticArena::Pack(Matrix shape, Spread spread) {
  void* const to = Take(backend_->PackedBytes(shape));
  const RandomFill fill = FillOfTensor(seed_, ++tensors_, spread);
  if (to == nullptr) return shape;
  if (!backend_->PackRandom(to, shape, fill)) {
    status_.Update(NoMemoryToPack(*backend_, absl::StrCat("the synthetic tensor ", tensors_), shape,
                                  "use a smaller format or a smaller model"));
  }
  shape.data = to;
  return shape;
}

Matrix SyntheticArena::Projection(const Matrix& shape, double gain) {
  return Pack(shape, {.scale = gain / std::sqrt(shape.cols)});
}

Matrix SyntheticArena::Projection(WeightFormat format, int rows, int cols, double gain,
                                  bool sparse_inputs) {
  return Projection({.format = format, .rows = rows, .cols = cols, .sparse_inputs = sparse_inputs},
                    gain);
}

}  // namespace tandem
