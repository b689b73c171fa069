#include <cstddef>

#include "kernels/time_mix_out/time_mix_out.h"

namespace tandem {

void TimeMixOutCpu(const TimeMixOutArgs& args, ThreadPool& pool) {
  LinearCpu({.rows = args.rows,
             .weight = args.output,
             .x = args.y,
             .x_stride = static_cast<size_t>(args.output.cols),
             .y = args.x,
             .y_stride = static_cast<size_t>(args.output.rows),
             .epilogue = Epilogue::kAdd},
            pool);
}

}  // namespace tandem
