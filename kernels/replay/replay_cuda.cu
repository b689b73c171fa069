#include "kernels/replay/replay_cuda.h"
#include "kernels/shift_cuda.h"
#include "kernels/time_mix_core/wkv_cuda.cuh"

namespace tandem {
namespace {

// One head of one slot per block. slots [n], accepted [S].
__global__ void __launch_bounds__(kWkvThreads)
    ReplayWkvKernel(const WkvState wkv, const int32_t* slots, const int32_t* accepted, int width) {
  __shared__ WkvLog log;
  const int slot = slots[blockIdx.y];
  const int count = ClampAccepted(accepted[slot]);
  if (count == 0) return;
  const size_t head = blockIdx.x;
  float* const committed = wkv.committed + slot * wkv.committed_stride + head * kHead * kHead;
  WkvCells cells = LoadCells(committed);
  LoadLog(wkv.log + slot * wkv.log_stride + head * kHead, count, width, log);
  __syncthreads();  // the log is complete
  ReplayCells(cells, log, count);
  StoreCells(cells, committed);
}

}  // namespace

void ReplayCuda(const ReplayArgs& args, const DeviceCuda& device) {
  const dim3 grid(args.width / kHead, static_cast<unsigned>(args.slots.size));
  Launch(device, ReplayWkvKernel, grid, dim3(kWkvThreads), 0, args.wkv, args.slots.data,
         args.accepted, args.width);
  ReplayShiftCuda(args.att_shift, args.slots, args.accepted, args.width, device);
  ReplayShiftCuda(args.ffn_shift, args.slots, args.accepted, args.width, device);
}

}  // namespace tandem
