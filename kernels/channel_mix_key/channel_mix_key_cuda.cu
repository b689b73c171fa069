#include "kernels/channel_mix_key/channel_mix_key_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/shift_cuda.h"

namespace tandem {

void ChannelMixKeyCuda(const ChannelMixKeyArgs& args, const DeviceCuda& device) {
  ShiftMixCuda({.rows = args.rows,
                .width = args.width,
                .mixes = 1,
                .lanes = args.lanes,
                .shift = args.shift,
                .x = args.x,
                .ln_weight = args.ln_weight,
                .ln_bias = args.ln_bias,
                .mix = args.mix,
                .h = args.h,
                .mixed = args.mixed},
               device);
  LinearCuda({.rows = args.rows,
              .weight = args.key,
              .x = args.mixed,
              .x_stride = static_cast<size_t>(args.width),
              .y = args.act,
              .y_stride = static_cast<size_t>(args.key.rows),
              .epilogue = Epilogue::kReluSquare},
             device);
}

}  // namespace tandem
