#include <limits>

#include "kernels/draft_head/draft_head.h"
#include "kernels/layer_norm.h"
#include "kernels/thread_pool.h"

namespace tandem {

void DraftHeadCpu(const DraftHeadArgs& args, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t head_rows = static_cast<size_t>(args.head.rows);
  pool.ParallelFor(args.rows, [&](int row) {
    LayerNormRow(args.x.data + row * c, args.lo_weight.data, args.lo_bias.data, args.width,
                 args.o.data + row * c);
  });
  LinearCpu(WholeRows(args.rows, args.head, args.o, args.logits), pool);
  pool.ParallelFor(args.rows, [&](int row) {
    const float* logits = args.logits.data + row * head_rows;
    float largest = -std::numeric_limits<float>::infinity();
    size_t best = 0;
    for (size_t i = 0; i < args.head_rows.size; ++i) {
      const float logit = logits[args.head_rows[i]];
      if (logit > largest) {
        largest = logit;
        best = i;
      }
    }
    args.tokens[row] = args.draft_vocab[best];
  });
}

}  // namespace tandem
