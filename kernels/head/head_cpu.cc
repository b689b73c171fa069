#include <algorithm>
#include <cstddef>

#include "kernels/head/head.h"
#include "kernels/thread_pool.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/head/head_cpu.cc"
#include "hwy/foreach_target.h"
// The per-target part comes after foreach_target.
#include "hwy/highway.h"
#include "kernels/norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tandem {
namespace HWY_NAMESPACE {

void FinalNorm(const HeadArgs& args, int row, float* to) {
  NormRow(args.x.data + static_cast<size_t>(row) * args.width, args.ln_weight.data,
          args.ln_bias.data, args.width, kLayerNormEps, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace tandem
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tandem {

HWY_EXPORT(FinalNorm);

void HeadCpu(const HeadArgs& args, ThreadPool& pool) {
  constexpr int kSpan = 16;  // rows of one piece of work
  const size_t width = static_cast<size_t>(args.width);
  if (args.tap.wanted()) {
    float* const tap = *args.tap.rows + args.tap.offset;
    pool.ParallelFor((args.rows + kSpan - 1) / kSpan, [&](int span) {
      for (int t = span * kSpan; t < std::min((span + 1) * kSpan, args.rows); ++t) {
        HWY_DYNAMIC_DISPATCH(FinalNorm)(args, t, tap + t * args.tap.stride);
      }
    });
  }
  const int wanted = static_cast<int>(args.logit_rows.size);
  for (int i = 0; i < wanted; ++i)
    HWY_DYNAMIC_DISPATCH(FinalNorm)(args, args.logit_rows[i], args.h.data + i * width);
  LinearCpu(WholeRows(wanted, args.head, args.h, args.logits), pool);
}

}  // namespace tandem
#endif  // HWY_ONCE
