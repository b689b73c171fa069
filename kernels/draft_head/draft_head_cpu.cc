#include <limits>

#include "kernels/draft_head/draft_head.h"
#include "kernels/layer_norm.h"
#include "kernels/thread_pool.h"

namespace tandem {

void DraftHeadCpu(const DraftHeadArgs& args, ThreadPool& pool) {
  const size_t c = static_cast<size_t>(args.width);
  const size_t vocab = static_cast<size_t>(args.vocab);
  pool.ParallelFor(args.rows, [&](int row) {
    LayerNormRow(args.x.data + row * c, args.lo_weight.data, args.lo_bias.data, args.width,
                 args.o.data + row * c);
  });
  LinearCpu({.rows = args.rows,
             .weight = args.head,
             .x = args.o,
             .x_stride = c,
             .y = args.logits,
             .y_stride = vocab},
            pool);
  pool.ParallelFor(args.rows, [&](int row) {
    const float* logits = args.logits.data + row * vocab;
    float largest = -std::numeric_limits<float>::infinity();
    args.tokens[row] = args.draft_vocab[0];
    for (size_t i = 0; i < args.draft_vocab.size; ++i) {
      const int32_t id = args.draft_vocab[i];
      if (logits[id] > largest) {
        largest = logits[id];
        args.tokens[row] = id;
      }
    }
  });
}

}  // namespace tandem
