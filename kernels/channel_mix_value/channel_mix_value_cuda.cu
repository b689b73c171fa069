#include "kernels/channel_mix_value/channel_mix_value_cuda.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 256;

// Row blockIdx.x of x [T, width] to tap [T, tap_stride], four channels per thread.
__global__ void TapKernel(const float* __restrict__ x, int width, float* __restrict__ tap,
                          size_t tap_stride) {
  const int at = 4 * static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (at >= width) return;
  *reinterpret_cast<float4*>(tap + blockIdx.x * tap_stride + at) =
      *reinterpret_cast<const float4*>(x + static_cast<size_t>(blockIdx.x) * width + at);
}

}  // namespace

void ChannelMixValueCuda(const ChannelMixValueArgs& args, const DeviceCuda& device) {
  const int width = args.value.rows;
  LinearCuda(WholeRows(args.rows, args.value, args.act, args.x, Epilogue::kAdd), device);
  if (args.tap.data == nullptr) return;
  const dim3 grid(args.rows, CeilDiv(width, 4 * kThreads));
  Launch(device, TapKernel, grid, dim3(kThreads), 0, static_cast<const float*>(args.x.data), width,
         args.tap.data, args.tap_stride);
}

}  // namespace tandem
