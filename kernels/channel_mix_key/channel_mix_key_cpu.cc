#include <cstddef>

#include "kernels/channel_mix_key/channel_mix_key.h"
#include "kernels/shift_cpu.h"

namespace tandem {

void ChannelMixKeyCpu(const ChannelMixKeyArgs& args, ThreadPool& pool) {
  ShiftMixCpu(ShiftMixOf(args, 1), pool);
  LinearCpu(WholeRows(args.rows, args.key, args.mixed, args.act, Epilogue::kReluSquare), pool);
}

}  // namespace tandem
