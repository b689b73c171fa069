// The end of every linear op: what happens to a finished sum. Included once per Highway target.
#if defined(TANDEM_KERNELS_LINEAR_EPILOGUE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TANDEM_KERNELS_LINEAR_EPILOGUE_INL_H_
#undef TANDEM_KERNELS_LINEAR_EPILOGUE_INL_H_
#else
#define TANDEM_KERNELS_LINEAR_EPILOGUE_INL_H_
#endif

#include <cstring>

#include "kernels/linear/linear.h"
#include "kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

// A product that rounds to -0 may leave a sum at -0, and a skipped zero term would not; this makes
// both +0.
HWY_INLINE F16 WithoutNegativeZero(const F16& sum) { return sum + Set16(0.0f); }

HWY_INLINE F16 ApplyEpilogue(Epilogue epilogue, const F16& sum, const float* y) {
  switch (epilogue) {
    case Epilogue::kStore:
      return sum;
    case Epilogue::kAdd:
      return Load16(y) + sum;
    case Epilogue::kReluSquare: {
      const F16 positive = Max16(sum, Set16(0.0f));
      return positive * positive;
    }
    case Epilogue::kTanh:
      return Tanh16(sum);
    case Epilogue::kSigmoid:
      return Sigmoid16(sum);
  }
  return sum;
}

// Finishes up to 16 sums of one row, of which the first `count` exist.
HWY_INLINE void FinishSums(Epilogue epilogue, const float* sums, int count, float* y) {
  const F16 sum = Load16(sums);
  if (count >= 16) {
    Store16(ApplyEpilogue(epilogue, sum, y), y);
    return;
  }
  HWY_ALIGN float part[16] = {};
  std::memcpy(part, y, static_cast<size_t>(count) * sizeof(float));
  Store16(ApplyEpilogue(epilogue, sum, part), part);
  std::memcpy(y, part, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
