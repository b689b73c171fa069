#include "kernels/channel_mix_key/channel_mix_key_cuda.h"
#include "kernels/linear/linear_cuda.h"
#include "kernels/shift_cuda.h"

namespace tandem {

void ChannelMixKeyCuda(const ChannelMixKeyArgs& args, const DeviceCuda& device) {
  ShiftMixCuda(ShiftMixOf(args, 1), device);
  LinearCuda(WholeRows(args.rows, args.key, args.mixed, args.act, Epilogue::kReluSquare), device);
}

}  // namespace tandem
