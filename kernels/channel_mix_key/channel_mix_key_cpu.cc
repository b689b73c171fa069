#include <cstddef>

#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/shift_cpu.h"

namespace tandem {

void ChannelMixKeyCpu(const ChannelMixKeyArgs& args, ThreadPool& pool) {
  ShiftMixCpu({.rows = args.rows,
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
              pool);
  LinearCpu({.rows = args.rows,
             .weight = args.key,
             .x = args.mixed,
             .x_stride = static_cast<size_t>(args.width),
             .y = args.act,
             .y_stride = static_cast<size_t>(args.key.rows),
             .epilogue = Epilogue::kReluSquare},
            pool);
}

}  // namespace tandem
