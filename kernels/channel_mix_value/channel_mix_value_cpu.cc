#include <cstddef>
#include <cstring>

#include "kernels/channel_mix_value/channel_mix_value.h"

namespace tandem {

void ChannelMixValueCpu(const ChannelMixValueArgs& args, ThreadPool& pool) {
  const size_t width = static_cast<size_t>(args.value.rows);
  LinearCpu(WholeRows(args.rows, args.value, args.act, args.x, Epilogue::kAdd), pool);
  if (!args.tap.wanted()) return;
  float* const tap = *args.tap.rows + args.tap.offset;
  for (int t = 0; t < args.rows; ++t)
    std::memcpy(tap + t * args.tap.stride, args.x.data + t * width, width * sizeof(float));
}

}  // namespace tandem
