#pragma once

#include "kernels/linear/linear.h"

namespace tandem {

// A finished sum, made never -0 by an addition that must not be fused with the product before it,
// and the value it may be added to.
__device__ inline float ApplyEpilogue(Epilogue epilogue, float sum, const float* y) {
  sum = __fadd_rn(sum, 0.0f);
  switch (epilogue) {
    case Epilogue::kStore:
      return sum;
    case Epilogue::kAdd:
      return *y + sum;
    case Epilogue::kReluSquare: {
      // Not fmaxf, which would hide a NaN.
      const float positive = sum < 0.0f ? 0.0f : sum;
      return positive * positive;
    }
    case Epilogue::kTanh:
      return tanhf(sum);
    case Epilogue::kSigmoid:
      return 1.0f / (1.0f + expf(-sum));
  }
  return sum;
}

}  // namespace tandem
