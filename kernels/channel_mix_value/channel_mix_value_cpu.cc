#include <cstddef>
#include <cstring>

#include "kernels/channel_mix_value/channel_mix_value.h"

namespace tandem {

void ChannelMixValueCpu(const ChannelMixValueArgs& args, ThreadPool& pool) {
  const size_t width = static_cast<size_t>(args.value.rows);
  LinearCpu({.rows = args.rows,
             .weight = args.value,
             .x = args.act,
             .x_stride = static_cast<size_t>(args.value.cols),
             .y = args.x,
             .y_stride = width,
             .epilogue = Epilogue::kAdd,
             .sparse = true},
            pool);
  if (args.tap.data == nullptr) return;
  for (int t = 0; t < args.rows; ++t) {
    std::memcpy(args.tap.data + t * args.tap_stride, args.x.data + t * width,
                width * sizeof(float));
  }
}

}  // namespace tandem
