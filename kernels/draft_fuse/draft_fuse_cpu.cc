#include "kernels/draft_fuse/draft_fuse.h"
#include "kernels/layer_norm.h"
#include "kernels/thread_pool.h"

namespace tandem {
namespace {

// u of depth 1 into the first C of each row of `joined` [R, 2C].
void FuseFeatures(const DraftFuseArgs& args, View<float> normed, View<float> joined,
                  ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  pool.ParallelFor(args.rows, [&](int row) {
    const float* from = args.features[row];
    float* to = normed.data + row * 3 * c;
    LayerNormRow(from, args.lh_weight.data, args.lh_bias.data, args.width, to);
    LayerNormRow(from + c, args.lf0_weight.data, args.lf0_bias.data, args.width, to + c);
    LayerNormRow(from + 2 * c, args.lf1_weight.data, args.lf1_bias.data, args.width, to + 2 * c);
  });
  LinearCpu({.rows = args.rows,
             .weight = args.fproj,
             .x = normed,
             .x_stride = 3 * c,
             .y = joined,
             .y_stride = 2 * c},
            pool);
}

}  // namespace

void DraftFuseCpu(const DraftFuseArgs& args, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  const View<float> normed = args.scratch.Sub(0, args.rows * 3 * c);
  const View<float> joined = args.scratch.Sub(normed.size, args.rows * 2 * c);
  if (args.features.data != nullptr) FuseFeatures(args, normed, joined, pool);
  pool.ParallelFor(args.rows, [&](int row) {
    float* to = joined.data + row * 2 * c;
    if (args.features.data == nullptr) {
      LayerNormRow(args.previous.data + row * c, args.lhd_weight.data, args.lhd_bias.data,
                   args.width, to);
    }
    LayerNormRow(args.embedding.data + args.tokens[row] * c, args.le_weight.data, args.le_bias.data,
                 args.width, to + c);
  });
  LinearCpu(WholeRows(args.rows, args.proj, joined, args.x), pool);
  pool.ParallelFor(args.rows, [&](int row) {
    float* x = args.x.data + row * c;
    for (size_t i = 0; i < c; ++i) x[i] += args.depth[i];
    LayerNormRow(x, args.ln0_weight.data, args.ln0_bias.data, args.width, x);
  });
}

}  // namespace tandem
