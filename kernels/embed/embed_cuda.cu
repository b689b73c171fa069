#include "kernels/embed/embed_cuda.h"
#include "kernels/launch_cuda.cuh"

namespace tandem {
namespace {

constexpr int kThreads = 256;

// Row tokens[blockIdx.x] of table [V, width] to row blockIdx.x of x [T, width], four channels per
// thread.
__global__ void EmbedKernel(const int32_t* tokens, const float* table, int width, float* x) {
  BeginOverlapped();
  const int at = 4 * static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (at >= width) return;
  const float* from = table + static_cast<size_t>(tokens[blockIdx.x]) * width + at;
  *reinterpret_cast<float4*>(x + static_cast<size_t>(blockIdx.x) * width + at) =
      *reinterpret_cast<const float4*>(from);
}

}  // namespace

void EmbedCuda(const EmbedArgs& args, const DeviceCuda& device) {
  const dim3 grid(args.rows, CeilDiv(args.width, 4 * kThreads));
  LaunchOverlapped(device, EmbedKernel, grid, dim3(kThreads), 0, args.tokens.data, args.table.data,
                   args.width, args.x.data);
}

}  // namespace tandem
