#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/accept/exp_sum.cc"
#include "kernels/accept/exp_sum.h"

#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

float ExpOne(float x) {
  HWY_ALIGN float lanes[16];
  Store16(Exp16(Set16(x)), lanes);
  return lanes[0];
}

double ExpSumOf(const float* values, int n, float shift) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
  for (int begin = 0; begin < n; begin += 16) {
    const int count = std::min(16, n - begin);
    HWY_ALIGN float value[16];
    HWY_ALIGN float term[16];
    for (int i = 0; i < 16; ++i) {
      const float v = i < count ? values[begin + i] : kLowest;
      value[i] = v > kLowest ? v : kLowest;
    }
    Store16(Exp16(Load16(value) - Set16(shift)), term);
    for (int i = 0; i < 16; ++i) sum += value[i] > kLowest ? term[i] : 0.0f;
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(ExpOne);
HWY_EXPORT(ExpSumOf);

float Exp(float x) { return HWY_DYNAMIC_DISPATCH(ExpOne)(x); }

double ExpSum(const float* values, int n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpSumOf)(values, n, shift);
}

}  // namespace tandem
#endif  // HWY_ONCE
