#include "kernels/channel_mix_value/channel_mix_value_cuda.h"
#include "kernels/launch_cuda.cuh"
#include "kernels/linear/linear_cuda.h"

namespace tandem {
namespace {

constexpr int kThreads = 256;

// Row blockIdx.x of x [T, width] to the tap, four channels per thread.
__global__ void TapKernel(const float* x, int width, const RowTap tap) {
  BeginOverlapped();
  const int at = 4 * static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  float* const rows = *tap.rows;
  if (at >= width || rows == nullptr) return;
  *reinterpret_cast<float4*>(rows + tap.offset + blockIdx.x * tap.stride + at) =
      *reinterpret_cast<const float4*>(x + static_cast<size_t>(blockIdx.x) * width + at);
}

}  // namespace

void ChannelMixValueCuda(const ChannelMixValueArgs& args, const DeviceCuda& device) {
  const int width = args.value.rows;
  LinearCuda(WholeRows(args.rows, args.value, args.act, args.x, Epilogue::kAdd), device);
  if (args.tap.rows == nullptr) return;
  const dim3 grid(args.rows, CeilDiv(width, 4 * kThreads));
  LaunchOverlapped(device, TapKernel, grid, dim3(kThreads), 0,
                   static_cast<const float*>(args.x.data), width, args.tap);
}

}  // namespace tandem
