#include "kernels/linear/linear_cuda.h"
#include "kernels/time_mix_out/time_mix_out_cuda.h"

namespace tandem {

void TimeMixOutCuda(const TimeMixOutArgs& args, const DeviceCuda& device) {
  LinearCuda({.rows = args.rows,
              .weight = args.output,
              .x = args.y,
              .x_stride = static_cast<size_t>(args.output.cols),
              .y = args.x,
              .y_stride = static_cast<size_t>(args.output.rows),
              .epilogue = Epilogue::kAdd},
             device);
}

}  // namespace tandem
