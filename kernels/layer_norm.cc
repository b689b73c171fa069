#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/layer_norm.cc"
#include "kernels/layer_norm.h"

#include "hwy/foreach_target.h"
#include "kernels/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

void LayerNorm(const float* x, const float* weight, const float* bias, int width, float* to) {
  NormRow(x, weight, bias, width, kLayerNormEps, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(LayerNorm);

void LayerNormRow(const float* x, const float* weight, const float* bias, int width, float* to) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(x, weight, bias, width, to);
}

}  // namespace tandem
#endif  // HWY_ONCE
