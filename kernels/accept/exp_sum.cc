#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/accept/exp_sum.cc"
#include "kernels/accept/exp_sum.h"

#include <algorithm>
#include <limits>

#include "hwy/foreach_target.h"
#include "kernels/accept/weight.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

uint64_t ExpSumOf(const float* values, int n, float shift) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  uint64_t sum = 0;
  for (int begin = 0; begin < n; begin += 16) {
    const int count = std::min(16, n - begin);
    HWY_ALIGN float value[16];
    HWY_ALIGN float term[16];
    for (int i = 0; i < 16; ++i) {
      const float v = i < count ? values[begin + i] : kLowest;
      value[i] = v > kLowest ? v : kLowest;
    }
    Store16(Exp16(Load16(value) - Set16(shift)), term);
    for (int i = 0; i < 16; ++i) sum += value[i] > kLowest ? Units(term[i]) : 0;
  }
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(ExpSumOf);

uint64_t ExpSum(const float* values, int n, float shift) {
  return HWY_DYNAMIC_DISPATCH(ExpSumOf)(values, n, shift);
}

}  // namespace tandem
#endif  // HWY_ONCE
