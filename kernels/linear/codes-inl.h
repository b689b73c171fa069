// A block of the layout of codes_cpu.h. Included once per Highway target.
#if defined(TANDEM_KERNELS_LINEAR_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_LINEAR_CODES_INL_H_
#undef TANDEM_KERNELS_LINEAR_CODES_INL_H_
#else
#define TANDEM_KERNELS_LINEAR_CODES_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "kernels/linear/codes_cpu.h"
#include "kernels/linear/part-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// kDecode turns sixteen codes into floats.
template <F16 (*kDecode)(const uint8_t* codes)>
class CodesBlock final {
 public:
  HWY_INLINE CodesBlock(const Matrix& matrix, int block)
      : codes_(static_cast<const uint8_t*>(matrix.data) +
               static_cast<size_t>(block) * matrix.cols * kLinearBlock),
        matrix_(matrix),
        block_(block) {}

  HWY_INLINE const void* Address(size_t k) const { return codes_ + k * kLinearBlock; }
  HWY_INLINE Halves Load(size_t k) const {
    const uint8_t* codes = codes_ + k * kLinearBlock;
    return {kDecode(codes), kDecode(codes + 16)};
  }
  HWY_INLINE Halves Scaled(const Halves& sum) const {
    const uint8_t* scales =
        static_cast<const uint8_t*>(matrix_.data) + CodeBytes(matrix_.rows, matrix_.cols);
    const float* scale = reinterpret_cast<const float*>(scales) + block_ * kLinearBlock;
    return {sum.low * Load16(scale), sum.high * Load16(scale + 16)};
  }

 private:
  const uint8_t* codes_;  // [K][32]
  const Matrix& matrix_;
  int block_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
