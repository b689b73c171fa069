#include "kernels/draft_mix/draft_mix.h"
#include "kernels/thread_pool.h"

namespace tandem {

void DraftMixCpu(const DraftMixArgs& args, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t hidden_width = static_cast<size_t>(args.key.rows);
  const View<float> mixed = args.scratch.Sub(0, args.rows * c);
  const View<float> hidden = args.scratch.Sub(mixed.size, args.rows * hidden_width);
  pool.ParallelFor(args.rows, [&](int row) {
    const float* z = args.z[row];
    const float* previous = args.z_prev[row];
    float* to = mixed.data + row * c;
    for (size_t i = 0; i < c; ++i) to[i] = z[i] + (previous[i] - z[i]) * args.x_k[i];
  });
  LinearCpu(WholeRows(args.rows, args.key, mixed, hidden, Epilogue::kReluSquare), pool);
  LinearCpu(WholeRows(args.rows, args.value, hidden, args.x, Epilogue::kAdd), pool);
}

}  // namespace tandem
