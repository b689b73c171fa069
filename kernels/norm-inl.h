// Layer norm of one row. Included once per Highway target.
#if defined(TANDEM_KERNELS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_NORM_INL_H_
#undef TANDEM_KERNELS_NORM_INL_H_
#else
#define TANDEM_KERNELS_NORM_INL_H_
#endif

#include <cmath>

#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

inline constexpr float kLayerNormEps = 1e-5f;

// out = (x - mean) / sqrt(variance + eps) * weight + bias over `width` values, a multiple of 16;
// population variance. Lane l sums the values at l, l + 16, ... in order. `out` may be `x`.
HWY_INLINE void NormRow(const float* x, const float* weight, const float* bias, int width,
                        float eps, float* out) {
  F16 sum = Set16(0.0f);
  for (int c = 0; c < width; c += 16) sum = sum + Load16(x + c);
  const F16 mean = Set16(Sum16(sum) / static_cast<float>(width));
  F16 squares = Set16(0.0f);
  for (int c = 0; c < width; c += 16) {
    const F16 centred = Load16(x + c) - mean;
    squares = Fma16(centred, centred, squares);
  }
  const float variance = Sum16(squares) / static_cast<float>(width);
  const F16 scale = Set16(1.0f / std::sqrt(variance + eps));
  for (int c = 0; c < width; c += 16) {
    const F16 normed = (Load16(x + c) - mean) * scale;
    Store16(Fma16(normed, Load16(weight + c), Load16(bias + c)), out + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
