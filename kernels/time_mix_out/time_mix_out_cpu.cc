#include <cstddef>

#include "kernels/time_mix_out/time_mix_out.h"

namespace tandem {

void TimeMixOutCpu(const TimeMixOutArgs& args, ThreadPool& pool) {
  LinearCpu(WholeRows(args.rows, args.output, args.y, args.x, Epilogue::kAdd), pool);
}

}  // namespace tandem
